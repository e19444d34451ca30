"""One head at a time."""

import numpy as np


def multi_head_attention(x, w_q, w_k, w_v, w_o, num_heads):
    step, pieces = x.shape[1] // num_heads, []
    for start in range(0, x.shape[1], step):
        own = slice(start, start + step)
        q, k, v = x @ w_q[:, own], x @ w_k[:, own], x @ w_v[:, own]
        powers = np.exp(q @ k.T / np.sqrt(step) - (q @ k.T / np.sqrt(step)).max(1, keepdims=True))
        pieces.append(powers / powers.sum(axis=1, keepdims=True) @ v)
    return np.hstack(pieces) @ w_o
