"""The mean is taken before the logarithm

Is the cost of each guess found before the mean is taken?

First -ln p for each guess, then the mean.
"""

import numpy as np


def cross_entropy(logits, target):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares = powers / powers.sum(axis=-1, keepdims=True)
    return -np.log(np.take_along_axis(shares, target[..., None], axis=-1).mean())
