"""The average as an einsum."""

import numpy as np


def softmax_backward(weights, grad):
    pushed = weights * grad
    return pushed - weights * np.einsum("ls,ls->l", weights, grad)[:, None]
