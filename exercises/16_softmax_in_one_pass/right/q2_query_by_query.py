"""One query at a time."""

import numpy as np


def fold_block(row_max, row_sum, acc, scores, v):
    new_max, new_sum, new_acc = row_max.copy(), row_sum.copy(), acc.copy()
    for i, row in enumerate(scores):
        new_max[i] = max(row_max[i], row.max())
        powers = np.exp(row - new_max[i])
        shrink = np.exp(row_max[i] - new_max[i])
        new_sum[i] = shrink * row_sum[i] + powers.sum()
        new_acc[i] = shrink * acc[i] + powers @ v
    return new_max, new_sum, new_acc
