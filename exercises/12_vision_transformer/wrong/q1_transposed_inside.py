"""Each patch is transposed

Inside a patch the order is row, column, channel. Is yours column first?

Keep the axes inside the patch in the order (row, column, channel).
"""


def patchify(image, patch):
    height, width, channels = image.shape
    tiles = image.reshape(height // patch, patch, width // patch, patch, channels)
    return tiles.transpose(0, 2, 3, 1, 4).reshape(-1, patch * patch * channels)
