"""Patches are counted down columns

Which patch is second: the one to the right of the first, or the one below it?

The row of patches is the slow axis: transpose(0, 2, 1, 3, 4).
"""


def patchify(image, patch):
    height, width, channels = image.shape
    tiles = image.reshape(height // patch, patch, width // patch, patch, channels)
    return tiles.transpose(2, 0, 1, 3, 4).reshape(-1, patch * patch * channels)
