"""Counted with the width in pixels, not in patches

How many patches stand in one row?

Use width // patch.
"""


def token_of_pixel(row, column, width, patch):
    return 1 + (row // patch) * width + column // patch


def pixels_of_token(token, width, patch):
    row, column = divmod(token - 1, width)
    return [row * patch, column * patch]
