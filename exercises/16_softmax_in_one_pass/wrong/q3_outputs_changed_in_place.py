"""The outputs are changed in place

Who calls you may need that array again. Does your code write into it?

share * out1 makes a new array; out1 *= share writes into the caller's.
"""

import numpy as np


def merge(out1, lse1, out2, lse2):
    lse = np.logaddexp(lse1, lse2)
    centre = np.where(np.isfinite(lse), lse, 0.0)
    out1 *= np.exp(lse1 - centre)[:, None]
    out1 += np.exp(lse2 - centre)[:, None] * out2
    return out1, lse
