"""The nearest key instead of the largest product

Distance and dot product disagree when keys have different lengths. Which one does the question
ask for?

Score a key with keys @ query, not with the norm of a difference.
"""

import numpy as np


def hard_lookup(query, keys, values):
    return values[np.argmin(np.linalg.norm(keys - query, axis=1))]
