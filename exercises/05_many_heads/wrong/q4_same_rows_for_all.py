"""Every head uses the first rows of w_o

Change the last row of w_o. Which head should notice?

Head h starts at row h * E.
"""


def head_contributions(heads, w_o):
    return heads @ w_o[: heads.shape[2]]
