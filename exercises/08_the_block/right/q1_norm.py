"""The length, divided by the root of the width."""

import numpy as np


def rms_norm(x, weight, eps=1e-5):
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return weight * x / np.hypot(length / np.sqrt(x.shape[-1]), np.sqrt(eps))
