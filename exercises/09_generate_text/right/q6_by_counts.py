"""Counts in place of shares."""

import numpy as np


def errors_away(draws, token, expected):
    n = len(draws)
    return (np.count_nonzero(draws == token) - n * expected) / (
        n * expected * (1 - expected)
    ) ** 0.5
