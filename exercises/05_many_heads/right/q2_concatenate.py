"""Heads concatenated."""

import numpy as np


def join_heads(heads):
    return np.concatenate(list(heads), axis=1)
