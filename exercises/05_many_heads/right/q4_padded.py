"""Each head alone, the others zero."""

import numpy as np


def head_contributions(heads, w_o):
    parts = []
    for h in range(len(heads)):
        alone = np.zeros_like(heads)
        alone[h] = heads[h]
        parts.append(np.concatenate(list(alone), axis=1) @ w_o)
    return np.stack(parts)
