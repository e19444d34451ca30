"""exp(lse) overflows

What is exp(1000)? And how large may a sum of exponentials be?

Subtract before you take exp: exp(lse1 - lse) is at most 1.
"""

import numpy as np


def merge(out1, lse1, out2, lse2):
    sum1, sum2 = np.exp(lse1)[:, None], np.exp(lse2)[:, None]
    return (sum1 * out1 + sum2 * out2) / (sum1 + sum2), np.log(np.exp(lse1) + np.exp(lse2))
