"""A border belongs to the token that ends there

Who owns the number 0 if token 0 has probability 0?

side='right' gives a border to the token that begins there.
"""

import numpy as np


def draw(probs, uniform):
    token = np.searchsorted(np.cumsum(probs), uniform, side="left")
    return np.minimum(token, np.flatnonzero(probs)[-1])
