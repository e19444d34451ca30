"""A straight reshape cuts the sequence, not the vectors

The shape is right. Is the first number of token 1 in head 0, as it should be?

Reshape to (L, H, D / H) first, then exchange two axes.
"""


def split_heads(x, num_heads):
    return x.reshape(num_heads, len(x), -1)
