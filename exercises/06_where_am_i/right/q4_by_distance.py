"""Each key is turned back by its distance from the query."""

import numpy as np


def newest_scores(query, keys, base=10_000.0):
    n, half = len(keys), keys.shape[1] // 2
    angle = np.outer(np.arange(n) - (n - 1), base ** (-np.arange(half) / half))
    points = (keys[:, :half] + 1j * keys[:, half:]) * np.exp(1j * angle)
    return (points * (query[:half] - 1j * query[half:])).real.sum(axis=1)
