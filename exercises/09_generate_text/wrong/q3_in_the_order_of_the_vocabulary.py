"""Summed in the order of the vocabulary

Is your running sum taken from the likeliest token downwards?

Sort first, and put the result back in place.
"""

import numpy as np


def keep_top_p(probs, p):
    kept = np.where(np.cumsum(probs) - probs < p, probs, 0.0)
    return kept / kept.sum()
