"""The table of every row is built

How many numbers has your largest array: L·S, or L·S·S?

grad times the table of a row is weights * (grad - sum(weights * grad)): no table is needed.
"""

import numpy as np


def softmax_backward(weights, grad):
    diagonal = np.eye(weights.shape[1]) * weights[:, None, :]
    table = diagonal - weights[:, :, None] * weights[:, None, :]
    return np.einsum("ls,lst->lt", grad, table)
