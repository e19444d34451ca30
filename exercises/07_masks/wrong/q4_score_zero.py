"""Hidden scores are set to 0, not to -inf

A score of 0 has the weight exp(0) = 1 before division. Is that hidden?

Use -np.inf: its exp is exactly 0.
"""

import numpy as np


def masked_attention(query, key, value, allowed):
    scores = query @ key.T / np.sqrt(query.shape[-1])
    scores = np.where(allowed, scores, 0.0)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return np.where(allowed.any(axis=-1, keepdims=True), weights @ value, 0.0)
