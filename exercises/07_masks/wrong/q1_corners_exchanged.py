"""The two corners are exchanged

With 2 queries and 5 keys, which token is the newest query for bottom_right?

Only bottom_right adds seq_len_kv - seq_len_q to the query's index.
"""

import numpy as np


def causal_mask(seq_len_q, seq_len_kv, align="top_left"):
    offset = 0 if align == "bottom_right" else seq_len_kv - seq_len_q
    return np.tri(seq_len_q, seq_len_kv, offset, dtype=bool)
