"""Positions are counted from 1

By how much does the token at position 0 turn?

Use the positions as they are given.
"""

import numpy as np


def angles(positions, width, base=10_000.0):
    speed = base ** (-np.arange(0, width, 2) / width)
    return (positions[:, None] + 1) * speed
