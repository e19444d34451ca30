"""Heads take every H-th row of w_o

Joined heads stand one after another. Which rows meet head 0?

Reshape w_o to (H, E, D), head first.
"""


def head_contributions(heads, w_o):
    num_heads, _, head_dim = heads.shape
    return heads @ w_o.reshape(head_dim, num_heads, -1).transpose(1, 0, 2)
