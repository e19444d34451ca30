"""Count the stretches that end at or before each number."""

import numpy as np


def draw(probs, uniform):
    ends = np.cumsum(probs)
    ends[np.flatnonzero(probs)[-1] :] = np.inf
    return (ends[None, :] <= uniform[:, None]).sum(axis=1)
