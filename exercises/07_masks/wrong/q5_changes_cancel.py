"""Changes are added up, so that they cancel

One coordinate moved by +0.5, the other by -0.5. What is the sum?

Take the largest absolute change of each row.
"""

import numpy as np


def leaking_positions(before, after, changed):
    moved = np.abs((after - before).sum(axis=-1)) > 1e-9
    return [int(place) for place in np.flatnonzero(moved[:changed])]
