"""No maximum: plain exponentials

What is exp(1000)?

Subtract the running maximum; when it grows, shrink the sum.
"""

import numpy as np


def fold_score(row_max, row_sum, score):
    return max(row_max, score), row_sum + np.exp(score)
