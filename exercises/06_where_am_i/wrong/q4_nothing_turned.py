"""Nothing is turned

Do your scores depend on distance?

Turn the keys and the query.
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
    return (keys + 0.0 * places[:, None]) @ query
