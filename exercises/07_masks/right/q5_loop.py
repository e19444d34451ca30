"""Position by position."""


def leaking_positions(before, after, changed):
    return [place for place in range(changed) if abs(before[place] - after[place]).max() > 1e-9]
