"""The probabilities are divided, not the logits

What does dividing all probabilities by T change, once their sum is 1 again?

Divide the logits, before softmax.
"""

import numpy as np


def tempered(logits, temperature=1.0):
    above = logits - logits.max(axis=-1, keepdims=True)
    if temperature == 0:
        return (above == 0).astype(float)
    powers = np.exp(above) / temperature
    return powers / powers.sum(axis=-1, keepdims=True)
