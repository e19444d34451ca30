"""Negative differences are not seen

What if every difference is negative?

np.abs
"""


def order_matters(out, shuffled, order):
    return float((shuffled - out[order]).max())
