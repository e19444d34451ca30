"""All pairs turn at the same speed

By how much does the second pair turn?

Each pair has its own column of angles.
"""

import numpy as np


def rotary(x, positions, base=10_000.0):
    width = x.shape[1]
    angle = positions[:, None] * np.ones(width // 2)
    cos, sin = np.cos(angle), np.sin(angle)
    first, second = x[:, : width // 2], x[:, width // 2 :]
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=1)
