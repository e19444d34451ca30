"""Rows are counted, their positions forgotten

Which position has the first row, if positions is [2]?

Use positions, not np.arange(len(x)).
"""

import numpy as np


def rotary(x, positions, base=10_000.0):
    width = x.shape[1]
    angle = np.arange(len(x))[:, None] * base ** (-np.arange(0, width, 2) / width)
    cos, sin = np.cos(angle), np.sin(angle)
    first, second = x[:, : width // 2], x[:, width // 2 :]
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=1)
