"""Only the diagonal is there

If weight 0 grows, can all the others stay as they are?

Off the diagonal the entry is -w_i w_j.
"""

import numpy as np


def softmax_jacobian(weights):
    return np.diag(weights * (1 - weights))
