"""Large logits overflow on the way back

What is np.exp(1000) / np.exp(1000)?

Subtract the largest logit of each guess before np.exp.
"""

import numpy as np


def cross_entropy_grad(logits, target):
    powers = np.exp(logits)
    share = powers / powers.sum(axis=-1, keepdims=True)
    right = np.arange(logits.shape[-1]) == target[..., None]
    return (share - right) / target.size
