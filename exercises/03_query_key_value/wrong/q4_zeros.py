"""Only zeros, in the right shape

Where do the values enter your result?

Multiply the weights with value.
"""

import numpy as np


def attention(query, key, value):
    return np.zeros((len(query), value.shape[1]))
