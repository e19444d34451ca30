"""The mean in place of the largest

If one component of a thousand knows the order, does your number show it?

.max()
"""

import numpy as np


def order_matters(out, shuffled, order):
    return float(np.abs(shuffled - out[order]).mean())
