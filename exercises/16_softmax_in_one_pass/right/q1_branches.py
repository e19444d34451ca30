"""Two cases, the maximum grows or stays."""

import numpy as np


def fold_score(row_max, row_sum, score):
    if score > row_max:
        return score, row_sum * np.exp(row_max - score) + 1.0
    return row_max, row_sum + np.exp(score - row_max)
