"""One average for all rows

Each query has a softmax of its own. How many averages are there?

Sum along the last axis, with keepdims=True.
"""

import numpy as np


def softmax_backward(weights, grad):
    return weights * (grad - np.sum(weights * grad))
