"""The pairs are changed in place

What does the array that you were given hold after the call?

Write into an array of your own.
"""

import numpy as np


def rotate(x, angle):
    a, b = x[:, 0].copy(), x[:, 1].copy()
    x[:, 0] = a * np.cos(angle) - b * np.sin(angle)
    x[:, 1] = a * np.sin(angle) + b * np.cos(angle)
    return x
