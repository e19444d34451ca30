"""The gate is σ alone

What should come out where x @ gate is 0?

SiLU is z times σ(z).
"""

import numpy as np


def swiglu(x, gate, up, down):
    return (x @ up / (1 + np.exp(-(x @ gate)))) @ down
