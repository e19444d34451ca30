"""Sine and cosine are exchanged

What should an angle of 0 do?

cos stands on the diagonal.
"""

import numpy as np


def rotate(x, angle):
    a, b = x[:, 0], x[:, 1]
    cos, sin = np.sin(angle), np.cos(angle)
    return np.stack([a * cos - b * sin, a * sin + b * cos], axis=1)
