"""One sum for all rows

What does each row of your result add up to?

Sum over the last axis: axis=-1, keepdims=True.
"""

import numpy as np


def tempered(logits, temperature=1.0):
    above = logits - logits.max(axis=-1, keepdims=True)
    if temperature == 0:
        return (above == 0).astype(float)
    powers = np.exp(above / temperature)
    return powers / powers.sum()
