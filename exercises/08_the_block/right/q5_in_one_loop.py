"""Both halves in one loop."""

import numpy as np


def rms_norm(x, weight, eps=1e-5):
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * weight


def swiglu(x, gate, up, down):
    bent = x @ gate
    return (bent / (1 + np.exp(-bent)) * (x @ up)) @ down


def block(x, mix, norm_1, norm_2, gate, up, down):
    halves = ((norm_1, lambda y: mix @ y), (norm_2, lambda y: swiglu(y, gate, up, down)))
    for weight, half in halves:
        x = x + half(rms_norm(x, weight))
    return x
