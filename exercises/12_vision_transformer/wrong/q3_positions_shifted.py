"""Patch i gets position i, not i + 1

Row 0 of the positions belongs to the class token. Which row belongs to patch 0?

Concatenate first, then add.
"""

import numpy as np


def embed(patches, weight, class_token, positions):
    tokens = patches @ weight + positions[:-1]
    return np.concatenate([class_token[None, :] + positions[-1], tokens])
