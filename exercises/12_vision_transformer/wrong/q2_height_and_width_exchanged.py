"""Height and width are exchanged

Try a picture that is not square. How many patches stand in one row?

The grid is (height // patch, width // patch).
"""


def unpatchify(patches, height, width, patch):
    grid = (width // patch, height // patch, patch, patch, -1)
    return patches.reshape(grid).transpose(0, 2, 1, 3, 4).reshape(height, width, -1)
