"""One more than needed at exactly p

If the kept tokens hold exactly p, is p reached?

total - best < p, not <=.
"""

import numpy as np


def keep_top_p(probs, p):
    order = np.argsort(probs)[::-1]
    best = probs[order]
    total = np.cumsum(best)
    kept = np.zeros_like(probs)
    kept[order] = np.where(total - best <= p, best, 0.0)
    return kept / kept.sum()
