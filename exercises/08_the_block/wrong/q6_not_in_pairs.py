"""The pairs are torn apart

How much do the seeds differ, and does that belong into the error?

Take the standard deviation of second - first.
"""

import numpy as np


def compare(first, second):
    error = np.sqrt(first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second))
    return float(second.mean() - first.mean()), float(error)
