"""Numbers of the heads alternate

In which order stand the numbers of one token: head by head, or number by number?

Axes (L, H, E) before the reshape, not (L, E, H).
"""


def join_heads(heads):
    num_heads, seq_len, head_dim = heads.shape
    return heads.transpose(1, 2, 0).reshape(seq_len, num_heads * head_dim)
