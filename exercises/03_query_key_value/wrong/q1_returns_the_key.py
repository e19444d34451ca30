"""The key comes back, not its value

Keys are for comparing only. What belongs to the best key?

Use the place of the best key as an index into values.
"""

import numpy as np


def hard_lookup(query, keys, values):
    return keys[np.argmax(keys @ query)]
