"""The factor w_j in front is missing

A weight of 0 does not react to its score. Is your gradient 0 there?

Multiply by the weights after subtracting.
"""

import numpy as np


def softmax_backward(weights, grad):
    return grad - np.sum(weights * grad, axis=-1, keepdims=True)
