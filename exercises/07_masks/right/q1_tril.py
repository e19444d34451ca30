"""np.tril with its diagonal shifted."""

import numpy as np


def causal_mask(seq_len_q, seq_len_kv, align="top_left"):
    shift = {"top_left": 0, "bottom_right": seq_len_kv - seq_len_q}[align]
    return np.tril(np.ones((seq_len_q, seq_len_kv)), k=shift).astype(bool)
