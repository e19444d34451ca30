"""The mask is as wide as the longest sequence

How wide is the mask if every sequence of the batch is shorter than seq_len_kv?

Count places with np.arange(seq_len_kv), not with the longest length.
"""

import numpy as np


def padding_mask(lengths, seq_len_kv):
    return np.arange(lengths.max())[None, :] < lengths[:, None]
