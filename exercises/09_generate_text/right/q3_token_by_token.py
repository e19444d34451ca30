"""One token after another, until they hold p."""

import numpy as np


def keep_top_p(probs, p):
    kept, total = np.zeros(len(probs)), 0.0
    for token in sorted(range(len(probs)), key=lambda token: -probs[token]):
        if total >= p:
            break
        kept[token] = probs[token]
        total += probs[token]
    return kept / kept.sum()
