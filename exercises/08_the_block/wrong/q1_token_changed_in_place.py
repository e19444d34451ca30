"""The token is changed in place

What does the array that you were given hold after the call?

`x /= ...` writes into the caller's array: write x / ... instead.
"""

import numpy as np


def rms_norm(x, weight, eps=1e-5):
    x /= np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps)
    return x * weight
