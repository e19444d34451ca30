"""Large logits overflow

What is np.exp(1000)?

Subtract the largest logit of each guess first.
"""

import numpy as np


def cross_entropy(logits, target):
    right = np.take_along_axis(logits, target[..., None], axis=-1)[..., 0]
    return (np.log(np.exp(logits).sum(axis=-1)) - right).mean()
