"""Only NaN, in the right shape

What is 0 / 0, and what is inf - inf? Print the scores and the weights.

Subtract each row's maximum before exp, then divide by the sum of the row.
"""

import numpy as np


def attention(query, key, value):
    return np.full((len(query), value.shape[1]), np.nan)
