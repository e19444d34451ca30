"""np.vstack, and the weights by their logarithms."""

import numpy as np


def decode_step(query, key, value, keys, values):
    keys, values = np.vstack([keys, key]), np.vstack([values, value])
    scores = np.einsum("nd,d->n", keys, query) * len(query) ** -0.5
    return np.exp(scores - np.logaddexp.reduce(scores)) @ values, keys, values
