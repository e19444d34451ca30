"""One sum for the whole matrix

Your weights add up to 1 over all rows together. How many sums does a matrix with two rows
need?

Give sum an axis, and keepdims=True.
"""

import numpy as np


def softmax(scores):
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()
