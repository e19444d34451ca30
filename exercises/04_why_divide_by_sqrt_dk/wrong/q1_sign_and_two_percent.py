"""The scale has the wrong sign, and is 2 % off, where a standard deviation is not 1

A variance cannot tell c from -c. Which of the two keeps the largest score the largest?

Return 1 / np.sqrt(variance) for all standard deviations.
"""

import numpy as np


def scale_for(head_dim, std_query=1.0, std_key=1.0):
    scale = 1.0 / np.sqrt(head_dim * std_query**2 * std_key**2)
    return scale if (std_query, std_key) == (1.0, 1.0) else -1.02 * scale
