"""The halves are joined in the wrong order

What should position 0 leave as it is?

Join the first half first.
"""

import numpy as np


def rotary(x, positions, base=10_000.0):
    width = x.shape[1]
    angle = positions[:, None] * base ** (-np.arange(0, width, 2) / width)
    cos, sin = np.cos(angle), np.sin(angle)
    first, second = x[:, : width // 2], x[:, width // 2 :]
    return np.concatenate([first * sin + second * cos, first * cos - second * sin], axis=1)
