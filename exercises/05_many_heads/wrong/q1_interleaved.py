"""Heads take every H-th number

Head 0 owns the first D / H numbers of a token. Which ones does yours take?

The head is the slow axis: (L, H, D / H), not (L, D / H, H).
"""


def split_heads(x, num_heads):
    return x.reshape(len(x), -1, num_heads).transpose(2, 0, 1)
