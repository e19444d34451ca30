"""acc is divided in every block

Divide once, at the end. What does the next block do to an acc that has been divided?

Return acc without dividing it by row_sum.
"""

import numpy as np


def fold_block(row_max, row_sum, acc, scores, v):
    new_max = np.maximum(row_max, scores.max(axis=-1))
    shrink = np.exp(row_max - new_max)
    weights = np.exp(scores - new_max[:, None])
    row_sum = row_sum * shrink + weights.sum(axis=-1)
    return new_max, row_sum, (acc * shrink[:, None] + weights @ v) / row_sum[:, None]
