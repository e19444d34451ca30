"""Divided by the length of the token

How large are the numbers of a token of width 1,000 after your norm?

np.mean of the squares, not np.sum.
"""

import numpy as np


def rms_norm(x, weight, eps=1e-5):
    return x / np.sqrt(np.sum(x**2, axis=-1, keepdims=True) + eps) * weight
