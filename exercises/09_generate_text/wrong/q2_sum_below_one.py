"""What is left is not divided

What do the kept probabilities add up to?

Divide by their sum.
"""

import numpy as np


def keep_top_k(probs, k):
    kept = np.zeros_like(probs)
    best = np.argsort(probs)[::-1][:k]
    kept[best] = probs[best]
    return kept
