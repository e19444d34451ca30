"""The mean is subtracted first

What does your norm make of a token whose numbers are all 5?

RMSNorm divides only; to subtract the mean is LayerNorm's step.
"""

import numpy as np


def rms_norm(x, weight, eps=1e-5):
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * weight
