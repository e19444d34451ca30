"""Everything from the k-th largest on."""

import numpy as np


def keep_top_k(probs, k):
    least = np.sort(probs)[-min(k, len(probs))]
    kept = np.where(probs >= least, probs, 0)
    return kept / kept.sum()
