"""The old sums are changed in place

Who calls you may need that array again. Does your code write into it?

acc * shrink makes a new array; acc *= shrink writes into the caller's.
"""

import numpy as np


def fold_block(row_max, row_sum, acc, scores, v):
    new_max = np.maximum(row_max, scores.max(axis=-1))
    shrink = np.exp(row_max - new_max)
    weights = np.exp(scores - new_max[:, None])
    row_sum *= shrink
    row_sum += weights.sum(axis=-1)
    acc *= shrink[:, None]
    acc += weights @ v
    return new_max, row_sum, acc
