"""The probabilities are changed in place

What does the array that you were given hold after the call?

Write into an array of your own.
"""

import numpy as np


def keep_top_k(probs, k):
    probs[np.argsort(probs)[::-1][k:]] = 0
    return probs / probs.sum()
