"""Allowed keys are hidden, hidden ones seen

Here True = attend. Which keys get -inf in your code?

np.where(allowed, scores, -np.inf).
"""

import numpy as np


def masked_attention(query, key, value, allowed):
    scores = query @ key.T / np.sqrt(query.shape[-1])
    scores = np.where(allowed, -np.inf, scores)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total > 0, total, 1.0) @ value
