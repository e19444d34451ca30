"""As Llama's code on the Hub writes it: x cos + rotate_half(x) sin."""

import numpy as np


def rotary(x, positions, base=10_000.0):
    half = x.shape[1] // 2
    angle = np.outer(positions, base ** (-np.arange(half) / half))
    angle = np.concatenate([angle, angle], axis=1)
    other = np.concatenate([-x[:, half:], x[:, :half]], axis=1)
    return x * np.cos(angle) + other * np.sin(angle)
