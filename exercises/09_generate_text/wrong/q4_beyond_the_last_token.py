"""A number beyond the sum gives no token

What if the running sum ends at .9999 and the number is larger?

Take the last token that has a probability.
"""

import numpy as np


def draw(probs, uniform):
    return np.searchsorted(np.cumsum(probs), uniform, side="right")
