"""Rows and columns of patches, not pixels

The question asks for a pixel. How many pixels is a patch high?

Multiply both by patch.
"""


def pixels_of_token(token, width, patch):
    return list(divmod(token - 1, width // patch))
