"""The larger lse as the centre."""

import numpy as np


def merge(out1, lse1, out2, lse2):
    top = np.maximum(lse1, lse2)
    safe = np.where(top == -np.inf, 0.0, top)
    sum1, sum2 = np.exp(lse1 - safe), np.exp(lse2 - safe)
    total = sum1 + sum2
    with np.errstate(divide="ignore"):
        lse = safe + np.log(total)
    whole = np.where(total > 0, total, 1.0)[:, None]
    return (sum1[:, None] * out1 + sum2[:, None] * out2) / whole, lse
