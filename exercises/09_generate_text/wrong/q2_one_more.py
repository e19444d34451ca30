"""One token more than k

How many tokens does k = 1 keep?

A slice [:k] holds k entries.
"""

import numpy as np


def keep_top_k(probs, k):
    kept = np.zeros_like(probs)
    best = np.argsort(probs)[::-1][: k + 1]
    kept[best] = probs[best]
    return kept / kept.sum()
