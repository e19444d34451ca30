"""The diagonal is w_i, without minus w_i²

Add up a row of your table. The weights always add up to 1, so what must it be?

Subtract w_i w_j everywhere, on the diagonal too.
"""

import numpy as np


def softmax_jacobian(weights):
    table = -np.outer(weights, weights)
    np.fill_diagonal(table, weights)
    return table
