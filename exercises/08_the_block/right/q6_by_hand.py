"""Sums in place of NumPy's statistics."""

import numpy as np


def compare(first, second):
    pairs = [float(b - a) for a, b in zip(first, second, strict=True)]
    mean = sum(pairs) / len(pairs)
    square = sum((pair - mean) ** 2 for pair in pairs) / (len(pairs) - 1)
    return [mean, np.sqrt(square / len(pairs))]
