"""Patches pasted into an empty picture."""

import numpy as np


def unpatchify(patches, height, width, patch):
    channels = patches.shape[1] // patch**2
    image = np.empty((height, width, channels))
    places = [(r, c) for r in range(0, height, patch) for c in range(0, width, patch)]
    for (r, c), row in zip(places, patches, strict=True):
        image[r : r + patch, c : c + patch] = row.reshape(patch, patch, channels)
    return image
