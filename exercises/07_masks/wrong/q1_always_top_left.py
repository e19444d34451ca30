"""The triangle is always pinned to the top left

With 2 queries and 5 keys, which token is the newest query: token 1 or token 4?

For bottom_right add seq_len_kv - seq_len_q to the query's index.
"""

import numpy as np


def causal_mask(seq_len_q, seq_len_kv, align="top_left"):
    return np.tril(np.ones((seq_len_q, seq_len_kv), dtype=bool))
