"""Head by head and query by query."""

import numpy as np


def alibi(num_heads, seq_len):
    added = np.full((num_heads, seq_len, seq_len), -np.inf)
    for head in range(num_heads):
        for i in range(seq_len):
            added[head, i, : i + 1] = -np.arange(i, -1, -1) * 2 ** (-8 * (head + 1) / num_heads)
    return added
