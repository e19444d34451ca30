"""The offset is cut off at 0

With more queries than keys, the first queries end before any key. What may they see?

The offset seq_len_kv - seq_len_q may be negative; leave it so.
"""

import numpy as np


def causal_mask(seq_len_q, seq_len_kv, align="top_left"):
    offset = max(0, seq_len_kv - seq_len_q) if align == "bottom_right" else 0
    return np.arange(seq_len_kv)[None, :] <= np.arange(seq_len_q)[:, None] + offset
