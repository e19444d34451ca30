"""One slice for each head."""

import numpy as np


def split_heads(x, num_heads):
    step = x.shape[1] // num_heads
    return np.stack([x[:, h * step : (h + 1) * step] for h in range(num_heads)])
