"""The query is changed in place

Who calls you may need that array again. Does your code write into it?

query = query / root makes a new array; query /= root writes into the caller's.
"""

import numpy as np


def attention(query, key, value):
    query /= np.sqrt(query.shape[-1])
    powers = np.exp(query @ key.T)
    return powers / powers.sum(axis=-1, keepdims=True) @ value
