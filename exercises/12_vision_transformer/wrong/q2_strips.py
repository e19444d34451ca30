"""A straight reshape: squares become strips

Do the first numbers of a patch continue in the next line of the picture, where they belong?

Exchange axes before the last reshape.
"""


def unpatchify(patches, height, width, patch):
    return patches.reshape(height, width, -1)
