"""Counting patches one by one."""

import numpy as np


def token_of_pixel(row, column, width, patch):
    return int(np.ceil((column + 1) / patch)) + row // patch * (width // patch)


def pixels_of_token(token, width, patch):
    per_row = width // patch
    return [(token - 1) // per_row * patch, (token - 1) % per_row * patch]
