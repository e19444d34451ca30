"""The order is not applied

Does token 0 of `shuffled` belong to token 0 of `out`?

Compare with out[order].
"""

import numpy as np


def order_matters(out, shuffled, order):
    return float(np.abs(shuffled - out).max())
