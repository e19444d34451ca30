"""Sharpness is not used

Try sharpness 0 and 100. Does your answer change?

Multiply keys @ query by sharpness.
"""

import numpy as np


def softmax(scores):
    raised = np.exp(scores - scores.max(axis=-1)[..., None])
    return raised / raised.sum(axis=-1)[..., None]


def soft_lookup(query, keys, values, sharpness=1.0):
    return softmax(keys @ query) @ values
