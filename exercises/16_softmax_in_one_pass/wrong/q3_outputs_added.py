"""The outputs are added without shares

Each output is an average already. Is the sum of two averages an average?

Weight them with shares that add up to 1.
"""

import numpy as np


def merge(out1, lse1, out2, lse2):
    return out1 + out2, np.logaddexp(lse1, lse2)
