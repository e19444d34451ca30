"""The least likely are kept

From which end does np.argsort count?

np.argsort goes from small to large: turn it round.
"""

import numpy as np


def keep_top_k(probs, k):
    kept = np.zeros_like(probs)
    best = np.argsort(probs)[:k]
    kept[best] = probs[best]
    return kept / kept.sum()
