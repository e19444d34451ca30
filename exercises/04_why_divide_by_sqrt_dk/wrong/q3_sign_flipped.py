"""The sign is flipped

Raise a score: does its own weight grow or shrink?

The diagonal is w_i (1 - w_i), a positive number.
"""

import numpy as np


def softmax_jacobian(weights):
    return np.outer(weights, weights) - np.diag(weights)
