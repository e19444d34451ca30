"""The block as it was

Which of the three lines adds, and which replaces?

Both halves: x + half(rms_norm(x)), and no norm around x itself.
"""

import numpy as np


def rms_norm(x, weight, eps=1e-5):
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * weight


def swiglu(x, gate, up, down):
    bent = x @ gate
    return (bent / (1 + np.exp(-bent)) * (x @ up)) @ down


def block(x, mix, norm_1, norm_2, gate, up, down):
    x = mix @ rms_norm(x, norm_1)
    x = x + swiglu(x, gate, up, down)
    return rms_norm(x, norm_2)
