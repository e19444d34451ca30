"""exp and a sum, without the maximum."""

import numpy as np


def softmax(scores):
    powers = np.exp(scores)
    return powers / np.sum(powers, axis=-1)[..., None]
