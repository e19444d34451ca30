"""The weights are forgotten

Does your result change when `weight` does?

Multiply by weight at the end.
"""

import numpy as np


def rms_norm(x, weight, eps=1e-5):
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps)
