"""The spread of one pair

Is the mean of eight pairs as uncertain as one pair?

Divide by the root of their number.
"""


def compare(first, second):
    difference = second - first
    return float(difference.mean()), float(difference.std(ddof=1))
