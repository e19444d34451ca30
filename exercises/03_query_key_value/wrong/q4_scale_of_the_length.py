"""The scale comes from the number of keys

The root of which size is needed: how many keys there are, or how wide they are?

shape[0] counts the keys; shape[-1] is their width.
"""

import numpy as np


def softmax(scores):
    raised = np.exp(scores - scores.max(axis=-1)[..., None])
    return raised / raised.sum(axis=-1)[..., None]


def attention(query, key, value):
    return softmax(query @ key.T / np.sqrt(key.shape[0])) @ value
