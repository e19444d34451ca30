"""Scaled by the width of the model, not of a head

How many products are added up in one head's score?

Take q.shape[-1] after splitting: D / H.
"""

import numpy as np


def multi_head_attention(x, w_q, w_k, w_v, w_o, num_heads):
    parts = [(x @ w).reshape(len(x), num_heads, -1).transpose(1, 0, 2) for w in (w_q, w_k, w_v)]
    q, k, v = parts
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(x.shape[-1])
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    joined = (weights @ v).transpose(1, 0, 2).reshape(x.shape)
    return joined @ w_o
