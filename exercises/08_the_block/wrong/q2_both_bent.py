"""Both copies are bent

How many of the two copies go through SiLU?

Bend x @ gate only.
"""

import numpy as np


def swiglu(x, gate, up, down):
    bent, wide = x @ gate, x @ up
    return (bent / (1 + np.exp(-bent)) * wide / (1 + np.exp(-wide))) @ down
