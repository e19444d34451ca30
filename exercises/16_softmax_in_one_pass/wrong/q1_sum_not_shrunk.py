"""The old sum is not shrunk

The old sum was made with an older, smaller maximum. Is it still right after the maximum grew?

Multiply it by exp(row_max - new_max).
"""

import numpy as np


def fold_score(row_max, row_sum, score):
    new_max = max(row_max, score)
    return new_max, row_sum + np.exp(score - new_max)
