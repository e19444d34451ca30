"""An empty row becomes NaN

What is -inf minus -inf? And 0 divided by 0?

Subtract 0 where the maximum is -inf, and divide by 1 where the sum is 0.
"""

import numpy as np


def masked_attention(query, key, value, allowed):
    scores = query @ key.T / np.sqrt(query.shape[-1])
    scores = np.where(allowed, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ value
