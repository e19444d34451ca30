"""The token that reaches p is cut off

Do the tokens that you keep hold p?

Keep a token if those before it hold less than p.
"""

import numpy as np


def keep_top_p(probs, p):
    order = np.argsort(probs)[::-1]
    best = probs[order]
    total = np.cumsum(best)
    kept = np.zeros_like(probs)
    kept[order] = np.where(total <= p, best, 0.0)
    return kept / max(kept.sum(), 1e-300)
