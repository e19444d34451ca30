"""The second half reads x without a norm

What does the gated layer read: x, or x through a norm?

swiglu(rms_norm(x, norm_2), ...)
"""

import numpy as np


def rms_norm(x, weight, eps=1e-5):
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * weight


def swiglu(x, gate, up, down):
    bent = x @ gate
    return (bent / (1 + np.exp(-bent)) * (x @ up)) @ down


def block(x, mix, norm_1, norm_2, gate, up, down):
    x = x + mix @ rms_norm(x, norm_1)
    return x + swiglu(x, gate, up, down)
