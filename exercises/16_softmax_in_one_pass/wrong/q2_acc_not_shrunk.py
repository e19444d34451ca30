"""acc is not shrunk with the sum

acc was made with the same old maximum as row_sum. What has to happen to it?

Multiply acc by shrink[:, None].
"""

import numpy as np


def fold_block(row_max, row_sum, acc, scores, v):
    new_max = np.maximum(row_max, scores.max(axis=-1))
    shrink = np.exp(row_max - new_max)
    weights = np.exp(scores - new_max[:, None])
    return new_max, row_sum * shrink + weights.sum(axis=-1), acc + weights @ v
