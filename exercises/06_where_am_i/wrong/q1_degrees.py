"""Degrees, not radians

How many radians has a quarter turn?

np.cos takes radians: do not convert.
"""

import numpy as np


def rotate(x, angle):
    a, b = x[:, 0], x[:, 1]
    cos, sin = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    return np.stack([a * cos - b * sin, a * sin + b * cos], axis=1)
