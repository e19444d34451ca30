"""Rows and columns of patches exchanged

Where does the second patch of the list belong: to the right of the first, or below it?

transpose(0, 2, 1, 3, 4) keeps rows of patches in front.
"""


def unpatchify(patches, height, width, patch):
    grid = (height // patch, width // patch, patch, patch, -1)
    return patches.reshape(grid).transpose(1, 2, 0, 3, 4).reshape(height, width, -1)
