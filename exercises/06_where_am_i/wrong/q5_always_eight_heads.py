"""The slopes of eight heads, however many there are

Which slopes have two heads?

The exponent is -8i / num_heads.
"""

import numpy as np


def alibi(num_heads, seq_len):
    slopes = 2.0 ** -np.arange(1.0, num_heads + 1)
    distance = np.arange(seq_len)[:, None] - np.arange(seq_len)
    penalty = -slopes[:, None, None] * distance
    return np.where(distance < 0, -np.inf, penalty)
