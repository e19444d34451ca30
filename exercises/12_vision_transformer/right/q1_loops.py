"""Two loops over the patches."""

import numpy as np


def patchify(image, patch):
    rows = []
    for top in range(0, image.shape[0], patch):
        for left in range(0, image.shape[1], patch):
            rows.append(image[top : top + patch, left : left + patch].ravel())
    return np.array(rows)
