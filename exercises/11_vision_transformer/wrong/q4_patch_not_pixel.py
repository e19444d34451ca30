"""Rows and columns of patches, not pixels

The question asks for a pixel. How many pixels is a patch high?

Multiply both by patch.
"""


def token_of_pixel(row, column, width, patch):
    return 1 + (row // patch) * (width // patch) + column // patch


def pixels_of_token(token, width, patch):
    return list(divmod(token - 1, width // patch))
