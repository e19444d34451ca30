"""Entry by entry."""

import numpy as np


def softmax_jacobian(weights):
    size = len(weights)
    table = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            table[i, j] = weights[i] * ((1.0 if i == j else 0.0) - weights[j])
    return table
