"""np.logaddexp does the subtraction of the largest by itself."""

import numpy as np


def cross_entropy(logits, target):
    rows, right = logits.reshape(-1, logits.shape[-1]), np.ravel(target)
    return np.mean(np.logaddexp.reduce(rows, axis=1) - rows[np.arange(len(rows)), right])
