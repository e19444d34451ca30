"""ε stands outside the root

For a token as small as ε it matters what ε is added to.

Add eps to the mean square, under the root.
"""

import numpy as np


def rms_norm(x, weight, eps=1e-5):
    return x / (np.sqrt(np.mean(x**2, axis=-1, keepdims=True)) + eps) * weight
