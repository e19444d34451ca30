"""Columns of w_o are cut, not rows

Which axis of w_o meets the joined heads in the product?

Head h meets rows h * E to (h + 1) * E - 1.
"""

import numpy as np


def head_contributions(heads, w_o):
    num_heads, seq_len, head_dim = heads.shape
    out = np.zeros((num_heads, seq_len, w_o.shape[1]))
    step = w_o.shape[1] // num_heads
    for h in range(num_heads):
        out[h][:, h * step : (h + 1) * step] = heads[h] @ w_o[:head_dim, h * step : (h + 1) * step]
    return out
