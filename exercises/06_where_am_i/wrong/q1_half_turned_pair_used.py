"""The second number uses the new first one

Which a does the second row need: the old one?

Keep the old pair until both new numbers are there.
"""

import numpy as np


def rotate(x, angle):
    a, b = x[:, 0], x[:, 1]
    a = a * np.cos(angle) - b * np.sin(angle)
    b = a * np.sin(angle) + b * np.cos(angle)
    return np.stack([a, b], axis=1)
