"""First minus second

Which of the two is subtracted?

second - first
"""

import numpy as np


def compare(first, second):
    difference = first - second
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference)))
