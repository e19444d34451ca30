"""Later keys are not hidden

What is added for a key that comes later?

np.where(distance < 0, -np.inf, penalty)
"""

import numpy as np


def alibi(num_heads, seq_len):
    slopes = 2.0 ** (-8 * np.arange(1, num_heads + 1) / num_heads)
    distance = np.arange(seq_len)[:, None] - np.arange(seq_len)
    penalty = -slopes[:, None, None] * abs(distance)
    return penalty
