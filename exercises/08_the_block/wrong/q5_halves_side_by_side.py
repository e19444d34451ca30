"""The second half does not see the first

Does the second half read what the first has added?

Give the sum of the first half the name x, then go on with it.
"""

import numpy as np


def rms_norm(x, weight, eps=1e-5):
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * weight


def swiglu(x, gate, up, down):
    bent = x @ gate
    return (bent / (1 + np.exp(-bent)) * (x @ up)) @ down


def block(x, mix, norm_1, norm_2, gate, up, down):
    first = mix @ rms_norm(x, norm_1)
    return x + first + swiglu(rms_norm(x, norm_2), gate, up, down)
