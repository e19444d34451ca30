"""The likeliest token is taken for the right one

Does your cost change when `target` does?

Pick the logit of the right token with np.take_along_axis.
"""

import numpy as np


def cross_entropy(logits, target):
    logits = logits - logits.max(axis=-1, keepdims=True)
    return np.log(np.exp(logits).sum(axis=-1)).mean()
