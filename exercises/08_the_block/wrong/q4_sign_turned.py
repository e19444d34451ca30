"""The sign is turned round

Should the cost rise when the right token's logit rises?

Softmax minus the one-hot row, not the other way round.
"""

import numpy as np


def cross_entropy_grad(logits, target):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    share = powers / powers.sum(axis=-1, keepdims=True)
    right = np.arange(logits.shape[-1]) == target[..., None]
    return (right - share) / target.size
