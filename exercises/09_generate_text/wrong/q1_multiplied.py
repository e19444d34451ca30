"""The temperature multiplies

Should a high temperature make the likely tokens likelier?

Divide the logits by the temperature.
"""

import numpy as np


def tempered(logits, temperature=1.0):
    above = logits - logits.max(axis=-1, keepdims=True)
    if temperature == 0:
        return (above == 0).astype(float)
    powers = np.exp(above * temperature)
    return powers / powers.sum(axis=-1, keepdims=True)
