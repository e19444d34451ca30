"""Standard deviations not squared

A variance is the square of a standard deviation. Are both squared in yours?

Use std_query**2 * std_key**2.
"""

import numpy as np


def score_variance(head_dim, std_query=1.0, std_key=1.0):
    return head_dim * std_query * std_key


def scale_for(head_dim, std_query=1.0, std_key=1.0):
    return 1.0 / np.sqrt(head_dim * std_query * std_key)
