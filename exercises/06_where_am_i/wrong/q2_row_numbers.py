"""The row's number in place of its position

Which position has the second row of positions [0, 5]?

Use positions, not np.arange(len(positions)).
"""

import numpy as np


def angles(positions, width, base=10_000.0):
    speed = base ** (-np.arange(0, width, 2) / width)
    return np.arange(len(positions))[:, None] * speed
