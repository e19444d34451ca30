"""Patch size taken as the number of patches

16 x 16 is the size of a patch in pixels. How many patches are there then?

There are height // patch rows of patches.
"""


def patchify(image, patch):
    height, width, channels = image.shape
    tiles = image.reshape(patch, height // patch, patch, width // patch, channels)
    return tiles.transpose(0, 2, 1, 3, 4).reshape(patch * patch, -1)
