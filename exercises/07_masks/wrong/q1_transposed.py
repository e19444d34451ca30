"""Rows and columns exchanged

One row per query, one column per key. Does your first query see everything?

The query's index needs [:, None], the key's [None, :].
"""

import numpy as np


def causal_mask(seq_len_q, seq_len_kv, align="top_left"):
    offset = seq_len_kv - seq_len_q if align == "bottom_right" else 0
    return np.arange(seq_len_q)[:, None] + offset <= np.arange(seq_len_kv)[None, :]
