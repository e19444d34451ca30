"""Tokens and width of a head are exchanged

The last axis must be the width of a head. What is it in yours?

The order of axes is head, token, width: transpose(1, 0, 2).
"""


def split_heads(x, num_heads):
    return x.reshape(len(x), num_heads, -1).transpose(1, 2, 0)
