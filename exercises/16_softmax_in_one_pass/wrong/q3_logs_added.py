"""The logs are added, as if the sums were multiplied

Adding logarithms multiplies. What happens to the two sums?

lse = np.logaddexp(lse1, lse2).
"""

import numpy as np


def merge(out1, lse1, out2, lse2):
    centre = np.logaddexp(lse1, lse2)
    out = np.exp(lse1 - centre)[:, None] * out1 + np.exp(lse2 - centre)[:, None] * out2
    return out, lse1 + lse2
