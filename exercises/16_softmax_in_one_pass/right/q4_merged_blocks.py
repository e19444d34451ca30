"""Each block finished, then merged."""

import numpy as np


def tiled_attention(query, key, value, block):
    out, lse = np.zeros((len(query), value.shape[1])), np.full(len(query), -np.inf)
    for start in range(0, len(key), block):
        scores = query @ key[start : start + block].T * query.shape[1] ** -0.5
        top = scores.max(axis=1)
        powers = np.exp(scores - top[:, None])
        total = powers.sum(axis=1)
        part = powers @ value[start : start + block] / total[:, None]
        both = np.logaddexp(lse, top + np.log(total))
        share = np.exp(lse - both)[:, None]
        out, lse = share * out + (1.0 - share) * part, both
    return out
