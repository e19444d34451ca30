"""The query stands behind the last key

The last key belongs to the query's own token: how far apart are they?

Both stand at len(keys) - 1.
"""

import numpy as np


def rotary(x, positions, base=10_000.0):
    width = x.shape[1]
    angle = positions[:, None] * base ** (-np.arange(0, width, 2) / width)
    cos, sin = np.cos(angle), np.sin(angle)
    first, second = x[:, : width // 2], x[:, width // 2 :]
    turned = [first * cos - second * sin, first * sin + second * cos]
    return np.concatenate(turned, axis=1)


def newest_scores(query, keys, base=10_000.0):
    places = np.arange(len(keys))
    return rotary(keys, places, base) @ rotary(query[None], places[-1:] + 1, base)[0]
