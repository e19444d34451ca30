"""The old cache is returned

Does the next step know this token?

Return the longer keys and values.
"""

import numpy as np


def decode_step(query, key, value, keys, values):
    old = keys, values
    keys, values = np.concatenate([keys, key[None]]), np.concatenate([values, value[None]])
    scores = keys @ query / np.sqrt(len(query))
    weights = np.exp(scores - scores.max())
    out = weights / weights.sum() @ values
    return out, *old
