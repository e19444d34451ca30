"""The keys are counted backwards

Which key is the oldest: the first or the last?

The first key stands at position 0.
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
    return rotary(keys, places[::-1], base) @ rotary(query[None], places[-1:], base)[0]
