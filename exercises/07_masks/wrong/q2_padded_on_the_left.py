"""Padding on the left

Where do the real tokens stand in the example: first or last?

Real tokens come first: place < length.
"""

import numpy as np


def padding_mask(lengths, seq_len_kv):
    return np.arange(seq_len_kv)[None, :] >= seq_len_kv - lengths[:, None]
