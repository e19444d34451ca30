"""The scores are changed in place

Who calls you may need that array again. Does your code write into it?

scores = scores - top makes a new array; scores -= top writes into the caller's.
"""

import numpy as np


def softmax(scores):
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores
