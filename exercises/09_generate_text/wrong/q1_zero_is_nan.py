"""Divided by a temperature of 0

What is 0 / 0?

Treat temperature 0 by itself: 1 for the likeliest token.
"""

import numpy as np


def tempered(logits, temperature=1.0):
    above = logits - logits.max(axis=-1, keepdims=True)
    powers = np.exp(above / temperature)
    return powers / powers.sum(axis=-1, keepdims=True)
