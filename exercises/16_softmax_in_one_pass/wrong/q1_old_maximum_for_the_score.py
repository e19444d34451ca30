"""The new score uses the old maximum

Two terms of one sum must use the same maximum. Does the new score use the new one?

Add exp(score - new_max).
"""

import numpy as np


def fold_score(row_max, row_sum, score):
    new_max = max(row_max, score)
    old = score if row_max == -np.inf else row_max
    return new_max, row_sum * np.exp(old - new_max) + np.exp(score - old)
