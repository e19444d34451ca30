"""The scores are changed in place

Who calls you may need that array again. Does your code write into it?

scores - top makes a new array; scores -= top writes into the caller's.
"""

import numpy as np


def stable_softmax(scores):
    scores -= scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores)
    return powers / powers.sum(axis=-1, keepdims=True)
