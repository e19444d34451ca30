"""The whole matrix of scores is built

Which array in your code has one number for each query and each key?

Compute scores inside the loop, for one slice of the keys only.
"""

import numpy as np


def tiled_attention(query, key, value, block):
    scores = query @ key.T / np.sqrt(query.shape[1])
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers @ value / powers.sum(axis=1, keepdims=True)
