"""Scores below the maximum are left out

A score that is not the largest adds something too. How much, if it is 1 below the maximum?

Add exp(score - new_max) for every score.
"""

import numpy as np


def fold_score(row_max, row_sum, score):
    if score > row_max:
        return score, row_sum * np.exp(row_max - score) + 1.0
    return row_max, row_sum
