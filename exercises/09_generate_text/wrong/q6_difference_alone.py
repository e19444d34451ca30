"""The difference alone

In which unit is your distance?

Divide the difference by the standard error.
"""

import numpy as np


def errors_away(draws, token, expected):
    return float(np.mean(draws == token) - expected)
