"""The kept tokens hold less than 1

What do the kept probabilities add up to?

Divide by their sum.
"""

import numpy as np


def keep_top_p(probs, p):
    order = np.argsort(probs)[::-1]
    best = probs[order]
    total = np.cumsum(best)
    kept = np.zeros_like(probs)
    kept[order] = np.where(total - best < p, best, 0.0)
    return kept
