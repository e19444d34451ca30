"""No positions at all

Shuffle the patches: could attention tell?

Add positions to all rows.
"""

import numpy as np


def embed(patches, weight, class_token, positions):
    return np.concatenate([class_token[None, :], patches @ weight])
