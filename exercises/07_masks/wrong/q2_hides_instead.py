"""True marks the padding

PyTorch's key_padding_mask is True where a key is hidden. What does the course use?

True = attend: place < length.
"""

import numpy as np


def padding_mask(lengths, seq_len_kv):
    return np.arange(seq_len_kv)[None, :] >= lengths[:, None]
