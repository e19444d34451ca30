"""A token does not see itself

The diagonal is False in your mask. May a token look at itself?

Use <=, not <.
"""

import numpy as np


def causal_mask(seq_len_q, seq_len_kv, align="top_left"):
    offset = seq_len_kv - seq_len_q if align == "bottom_right" else 0
    return np.arange(seq_len_kv)[None, :] < np.arange(seq_len_q)[:, None] + offset
