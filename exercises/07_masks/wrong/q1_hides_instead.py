"""True marks what is hidden

In this course True = attend. Does your last query see anything?

Turn the comparison round: key <= query.
"""

import numpy as np


def causal_mask(seq_len_q, seq_len_kv, align="top_left"):
    offset = seq_len_kv - seq_len_q if align == "bottom_right" else 0
    return np.arange(seq_len_kv)[None, :] > np.arange(seq_len_q)[:, None] + offset
