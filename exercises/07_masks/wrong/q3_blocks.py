"""Blocks, not a sliding window

Query 2 with a window of 2 must see key 1. Does it in yours?

Compare the gap between query and key, not the number of their block.
"""

import numpy as np


def window_mask(seq_len, size):
    places = np.arange(seq_len)
    return (places[:, None] // size == places[None, :] // size) & (
        places[:, None] >= places[None, :]
    )
