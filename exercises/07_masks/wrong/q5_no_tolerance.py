"""Rounding counts as a leak

Two runs may differ by 1e-15 without any leak. Is that in your list?

Ask for a change of more than 1e-9.
"""

import numpy as np


def leaking_positions(before, after, changed):
    moved = (after != before).any(axis=-1)
    return [int(place) for place in np.flatnonzero(moved[:changed])]
