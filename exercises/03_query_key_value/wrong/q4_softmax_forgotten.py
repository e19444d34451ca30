"""Scores used as weights, without softmax

Do the rows of your weights add up to 1? Can they be negative?

Call softmax on the scaled scores before you multiply with value.
"""

import numpy as np


def attention(query, key, value):
    return query @ key.T / np.sqrt(query.shape[-1]) @ value
