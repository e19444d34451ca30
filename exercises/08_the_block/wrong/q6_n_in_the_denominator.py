"""n in the denominator

np.std divides by n unless it is told otherwise.

difference.std(ddof=1)
"""

import numpy as np


def compare(first, second):
    difference = second - first
    return float(difference.mean()), float(difference.std() / np.sqrt(len(difference)))
