"""Counted down columns

Patches are counted along rows. What is right of patch 1?

A row holds width // patch patches.
"""


def token_of_pixel(row, column, width, patch):
    return 1 + (column // patch) * (width // patch) + row // patch


def pixels_of_token(token, width, patch):
    column, row = divmod(token - 1, width // patch)
    return [row * patch, column * patch]
