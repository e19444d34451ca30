"""The delta kernel: for each query, the part of the gradient that all its keys share.

New here: the softmax's backward needs, for each row, the weights' gradients averaged by
weight. That sum over all keys equals the sum over the Ev entries of out · dout, so it costs
one pass over two (L, Ev) arrays and no weight at all.
"""

from __future__ import annotations

from attncourse.kernels.runtime import tl, triton
from attncourse.kernels.tiles import load_tile, tile_pointers, wide


@triton.jit
def delta_kernel(
    out,
    dout,
    dlse,
    delta,
    dout_stride_b,
    dout_stride_h,
    dout_stride_l,
    dout_stride_e,
    num_heads,
    seq_len_q,
    EV: tl.constexpr,
    BLOCK_EV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    ACC: tl.constexpr,
):
    """Store sum(out · dout) - dlse for one tile of queries; dlse and delta are contiguous."""
    num_tiles = tl.cdiv(seq_len_q, BLOCK_M)
    row0 = tl.program_id(0) % num_tiles * BLOCK_M
    head_index = (tl.program_id(0) // num_tiles).to(tl.int64)
    batch, head = head_index // num_heads, head_index % num_heads
    rows = row0 + tl.arange(0, BLOCK_M)
    out += (head_index * seq_len_q + row0) * EV
    dout += batch * dout_stride_b + head * dout_stride_h + wide(row0) * dout_stride_l

    left = tile_pointers(out, EV, 1, BLOCK_M, BLOCK_EV)
    left = load_tile(left, rows, 0, seq_len_q, EV, BLOCK_EV, True, False).to(ACC)
    right = tile_pointers(dout, dout_stride_l, dout_stride_e, BLOCK_M, BLOCK_EV)
    right = load_tile(right, rows, 0, seq_len_q, EV, BLOCK_EV, True, False).to(ACC)
    at = head_index * seq_len_q + rows
    inside = rows < seq_len_q
    from_lse = tl.load(dlse + at, mask=inside, other=0.0)
    tl.store(delta + at, tl.sum(left * right, 1) - from_lse, mask=inside)
