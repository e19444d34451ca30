"""The error of a single draw

Is the share of 4,000 draws as uncertain as one draw?

Divide by the number of draws under the root.
"""

import numpy as np


def errors_away(draws, token, expected):
    return float((np.mean(draws == token) - expected) / np.sqrt(expected * (1 - expected)))
