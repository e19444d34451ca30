"""One size for all tokens

Does a long token in a batch make the other tokens smaller?

Take the mean over the last axis: axis=-1, keepdims=True.
"""

import numpy as np


def rms_norm(x, weight, eps=1e-5):
    return x / np.sqrt(np.mean(x**2) + eps) * weight
