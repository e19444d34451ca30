"""The exponent counts pairs, not components

Which power of the base does the second of two pairs have?

The exponent is -2i / width.
"""

import numpy as np


def angles(positions, width, base=10_000.0):
    speed = base ** (-np.arange(width // 2) / width)
    return positions[:, None] * speed
