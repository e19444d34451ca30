"""A loop over keys."""

import numpy as np


def soft_lookup(query, keys, values, sharpness=1.0):
    powers = [np.exp(sharpness * float(np.dot(query, key))) for key in keys]
    total = sum(powers)
    return sum(power / total * value for power, value in zip(powers, values, strict=True))
