"""Hidden with -1e9 in place of -inf

In a row where everything is hidden, all scores are equally low. What does softmax make of
that?

Use -np.inf, and give an empty row zeros.
"""

import numpy as np


def masked_attention(query, key, value, allowed):
    scores = query @ key.T / np.sqrt(query.shape[-1])
    scores = np.where(allowed, scores, -1e9)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ value
