"""Negative gates are cut

What is SiLU of -1? It is not 0.

SiLU bends smoothly: z / (1 + np.exp(-z)).
"""

import numpy as np


def swiglu(x, gate, up, down):
    return (np.maximum(x @ gate, 0) * (x @ up)) @ down
