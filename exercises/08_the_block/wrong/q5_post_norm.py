"""The norms stand on the stream

Where does the norm stand: before a half, or around the sum?

Pre-norm: x + half(rms_norm(x)); the sum itself is not normed.
"""

import numpy as np


def rms_norm(x, weight, eps=1e-5):
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * weight


def swiglu(x, gate, up, down):
    bent = x @ gate
    return (bent / (1 + np.exp(-bent)) * (x @ up)) @ down


def block(x, mix, norm_1, norm_2, gate, up, down):
    x = rms_norm(x + mix @ x, norm_1)
    return rms_norm(x + swiglu(x, gate, up, down), norm_2)
