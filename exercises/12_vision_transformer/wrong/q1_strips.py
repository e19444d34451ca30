"""A straight reshape cuts strips, not squares

Which pixels are in the first row of yours: a square, or the beginning of the first line?

Five axes first, then a transpose, then flatten.
"""


def patchify(image, patch):
    return image.reshape(-1, patch * patch * image.shape[2])
