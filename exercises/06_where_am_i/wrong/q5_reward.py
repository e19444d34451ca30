"""Distance is rewarded

Should far keys get more or less?

The slope times the distance is subtracted.
"""

import numpy as np


def alibi(num_heads, seq_len):
    slopes = 2.0 ** (-8 * np.arange(1, num_heads + 1) / num_heads)
    distance = np.arange(seq_len)[:, None] - np.arange(seq_len)
    penalty = slopes[:, None, None] * distance
    return np.where(distance < 0, -np.inf, penalty)
