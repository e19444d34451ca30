"""Rows and columns are exchanged

What belongs to a row of the result: a position or a pair?

positions[:, None] * speed[None, :]
"""

import numpy as np


def angles(positions, width, base=10_000.0):
    speed = base ** (-np.arange(0, width, 2) / width)
    return (positions[:, None] * speed).T
