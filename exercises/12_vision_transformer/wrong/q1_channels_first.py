"""Channels come before pixels

The channels of one pixel must stand side by side. Do they?

Channel stays the last of the five axes.
"""


def patchify(image, patch):
    height, width, channels = image.shape
    tiles = image.reshape(height // patch, patch, width // patch, patch, channels)
    return tiles.transpose(0, 2, 4, 1, 3).reshape(-1, patch * patch * channels)
