"""The old sum grows in place of shrinking

Is your factor above or below 1 when the maximum grows?

It is exp(old - new), with old <= new.
"""

import numpy as np


def fold_score(row_max, row_sum, score):
    new_max = max(row_max, score)
    shrink = 1.0 if row_max == -np.inf else np.exp(new_max - row_max)
    return new_max, row_sum * shrink + np.exp(score - new_max)
