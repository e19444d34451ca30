"""The inverse order is applied

Which token of X comes first in X[order]?

out[order], not out[np.argsort(order)]
"""

import numpy as np


def order_matters(out, shuffled, order):
    return float(np.abs(shuffled - out[np.argsort(order)]).max())
