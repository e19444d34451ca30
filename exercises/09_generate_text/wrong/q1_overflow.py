"""Small temperatures overflow

What is np.exp(1000)?

Subtract the largest logit of each row first.
"""

import numpy as np


def tempered(logits, temperature=1.0):
    if temperature == 0:
        return (logits == logits.max(axis=-1, keepdims=True)).astype(float)
    powers = np.exp(logits / temperature)
    return powers / powers.sum(axis=-1, keepdims=True)
