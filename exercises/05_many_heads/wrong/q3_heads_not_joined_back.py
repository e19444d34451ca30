"""Heads are flattened without moving the axes back

With heads first, a plain reshape mixes tokens. Which step of joining is missing?

transpose(1, 0, 2) before the reshape.
"""

import numpy as np


def multi_head_attention(x, w_q, w_k, w_v, w_o, num_heads):
    parts = [(x @ w).reshape(len(x), num_heads, -1).transpose(1, 0, 2) for w in (w_q, w_k, w_v)]
    q, k, v = parts
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    joined = (weights @ v).reshape(x.shape)
    return joined @ w_o
