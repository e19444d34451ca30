"""One triangle minus another."""

import numpy as np


def window_mask(seq_len, size):
    ones = np.ones((seq_len, seq_len), dtype=bool)
    return np.tril(ones) & ~np.tril(ones, k=-size)
