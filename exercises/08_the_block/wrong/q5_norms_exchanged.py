"""The two norms are exchanged

Which weights belong to which half?

norm_1 in the first half, norm_2 in the second.
"""

import numpy as np


def rms_norm(x, weight, eps=1e-5):
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * weight


def swiglu(x, gate, up, down):
    bent = x @ gate
    return (bent / (1 + np.exp(-bent)) * (x @ up)) @ down


def block(x, mix, norm_1, norm_2, gate, up, down):
    x = x + mix @ rms_norm(x, norm_2)
    return x + swiglu(rms_norm(x, norm_1), gate, up, down)
