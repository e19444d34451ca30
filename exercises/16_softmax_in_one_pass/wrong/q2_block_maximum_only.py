"""The maximum of the block replaces the running one

Let the second block hold only small scores. Which maximum should remain?

new_max is the larger of row_max and the block's maximum.
"""

import numpy as np


def fold_block(row_max, row_sum, acc, scores, v):
    new_max = scores.max(axis=-1)
    shrink = np.exp(row_max - new_max)
    weights = np.exp(scores - new_max[:, None])
    return new_max, row_sum * shrink + weights.sum(axis=-1), acc * shrink[:, None] + weights @ v
