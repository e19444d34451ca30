"""The vectors are turned with the clock

Scores do not notice, published weights do: which way does question 1 turn?

first * cos - second * sin
"""

import numpy as np


def rotary(x, positions, base=10_000.0):
    width = x.shape[1]
    angle = positions[:, None] * base ** (-np.arange(0, width, 2) / width)
    cos, sin = np.cos(angle), np.sin(angle)
    first, second = x[:, : width // 2], x[:, width // 2 :]
    return np.concatenate([first * cos + second * sin, second * cos - first * sin], axis=1)
