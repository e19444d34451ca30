"""Variances of query and key added, not multiplied

The variance of a product of two independent numbers with mean 0 is the product of their
variances.

Multiply std_query**2 with std_key**2.
"""

import numpy as np


def score_variance(head_dim, std_query=1.0, std_key=1.0):
    return head_dim * (std_query**2 + std_key**2)


def scale_for(head_dim, std_query=1.0, std_key=1.0):
    return 1.0 / np.sqrt(head_dim * (std_query**2 + std_key**2))
