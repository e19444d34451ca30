"""The error of the share that came

What is your error if the token was never drawn?

Use expected under the root, not the share.
"""

import numpy as np


def errors_away(draws, token, expected):
    share = np.mean(draws == token)
    error = np.sqrt(max(share * (1 - share), 1e-12) / len(draws))
    return float((share - expected) / error)
