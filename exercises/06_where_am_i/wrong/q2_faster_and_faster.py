"""Later pairs turn faster

Which pair turns slowest?

The exponent is negative.
"""

import numpy as np


def angles(positions, width, base=10_000.0):
    speed = base ** (np.arange(0, width, 2) / width)
    return positions[:, None] * speed
