"""The infinity norm of the differences."""

import numpy as np


def order_matters(out, shuffled, order):
    return np.linalg.norm(np.ravel(np.asarray(out)[order] - shuffled), ord=np.inf)
