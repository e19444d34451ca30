"""The positions are changed in place

Who calls you may need that array again. Does your code write into it?

tokens + positions makes a new array; positions += tokens writes into the caller's.
"""


def embed(patches, weight, class_token, positions):
    positions[0] += class_token
    positions[1:] += patches @ weight
    return positions
