"""The slopes begin at 1

Which slope has the first of eight heads?

Heads are counted from 1 in the exponent.
"""

import numpy as np


def alibi(num_heads, seq_len):
    slopes = 2.0 ** (-8 * np.arange(num_heads) / num_heads)
    distance = np.arange(seq_len)[:, None] - np.arange(seq_len)
    penalty = -slopes[:, None, None] * distance
    return np.where(distance < 0, -np.inf, penalty)
