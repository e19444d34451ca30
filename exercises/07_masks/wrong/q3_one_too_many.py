"""The window holds one key too many

Count the True in your last row. Is the token itself one of them?

0 <= gap < size gives exactly size keys.
"""

import numpy as np


def window_mask(seq_len, size):
    gap = np.arange(seq_len)[:, None] - np.arange(seq_len)[None, :]
    return (gap >= 0) & (gap <= size)
