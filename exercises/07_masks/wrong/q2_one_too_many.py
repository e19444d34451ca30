"""One padding token too many

A sequence of length 2 has its tokens at places 0 and 1. Is place 2 real?

Use <, not <=.
"""

import numpy as np


def padding_mask(lengths, seq_len_kv):
    return np.arange(seq_len_kv)[None, :] <= lengths[:, None]
