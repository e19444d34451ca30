"""The tokens have lost their places

Which token does the first number of your result belong to?

Put the kept probabilities back where they came from.
"""

import numpy as np


def keep_top_k(probs, k):
    kept = np.sort(probs)[::-1].copy()
    kept[k:] = 0
    return kept / kept.sum()
