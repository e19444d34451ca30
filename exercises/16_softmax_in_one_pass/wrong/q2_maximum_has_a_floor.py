"""The running maximum starts at -100

What comes out if all scores of a row are about -900?

Start from -inf and take the larger of row_max and the block's maximum, nothing else.
"""

import numpy as np


def fold_block(row_max, row_sum, acc, scores, v):
    old = np.maximum(row_max, -100.0)
    new_max = np.maximum(old, scores.max(axis=-1))
    shrink = np.exp(old - new_max)
    weights = np.exp(scores - new_max[:, None])
    return new_max, row_sum * shrink + weights.sum(axis=-1), acc * shrink[:, None] + weights @ v
