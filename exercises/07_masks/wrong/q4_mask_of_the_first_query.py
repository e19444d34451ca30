"""All queries get the first query's mask

Each row of `allowed` belongs to one query. Which rows does your code read?

np.where(allowed, scores, -np.inf) treats each row by itself.
"""

import numpy as np


def masked_attention(query, key, value, allowed):
    scores = query @ key.T / np.sqrt(query.shape[-1])
    scores[:, ~allowed[0]] = -np.inf
    top = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = powers.sum(axis=-1, keepdims=True)
    weights = powers / np.where(total > 0, total, 1.0)
    weights[~allowed.any(axis=1)] = 0.0
    return weights @ value
