"""A short last block is left out

7 keys in blocks of 3: how many keys do your blocks hold together?

range(0, len(key), block) starts a block for the rest too.
"""

import numpy as np


def tiled_attention(query, key, value, block):
    out, total = np.zeros((len(query), value.shape[1])), np.zeros((len(query), 1))
    top = np.full((len(query), 1), -np.inf)
    for number in range(len(key) // block):
        part = slice(number * block, (number + 1) * block)
        scores = query @ key[part].T / np.sqrt(query.shape[1])
        new = np.maximum(top, scores.max(axis=1, keepdims=True))
        shrink, powers, top = np.exp(top - new), np.exp(scores - new), new
        out, total = (
            out * shrink + powers @ value[part],
            total * shrink + powers.sum(1, keepdims=True),
        )
    return out / np.where(total > 0, total, 1.0)
