"""The class token is not counted

Token 0 is the class token. Which number has the first patch?

Add 1 on the way to the token, subtract 1 on the way back.
"""


def token_of_pixel(row, column, width, patch):
    return (row // patch) * (width // patch) + column // patch


def pixels_of_token(token, width, patch):
    row, column = divmod(token, width // patch)
    return [row * patch, column * patch]
