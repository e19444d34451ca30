"""Positions after the changed token are counted

May the output at the changed token itself move?

Look at positions 0 to changed - 1 only.
"""

import numpy as np


def leaking_positions(before, after, changed):
    moved = np.abs(after - before).max(axis=-1) > 1e-9
    return [int(place) for place in np.flatnonzero(moved)]
