"""The logarithm of the sum, subtracted before exp."""

import numpy as np


def tempered(logits, temperature=1.0):
    if temperature == 0:
        return 1.0 * (np.arange(logits.shape[-1]) == logits.argmax(axis=-1)[..., None])
    rows = logits / temperature
    return np.exp(rows - np.logaddexp.reduce(rows, axis=-1, keepdims=True))
