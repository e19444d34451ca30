"""np.outer, and a loop over pairs."""

import numpy as np


def angles(positions, width, base=10_000.0):
    return np.outer(positions, [base ** (-2 * i / width) for i in range(width // 2)])
