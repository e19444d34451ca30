"""Expected minus share

Is your number positive when the token came too often?

share - expected
"""

import numpy as np


def errors_away(draws, token, expected):
    error = np.sqrt(expected * (1 - expected) / len(draws))
    return float((expected - np.mean(draws == token)) / error)
