"""Pairs as complex numbers."""

import numpy as np


def rotate(x, angle):
    turned = (x[:, 0] + 1j * x[:, 1]) * np.exp(1j * angle)
    return np.stack([turned.real, turned.imag], axis=-1)
