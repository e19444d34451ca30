"""Rung 6, tiled: a block of keys at a time, with a running maximum and sum.

New here: no row of scores ever exists as a whole. `softmax.fold_block` takes in one block
of keys at a time; when the maximum grows, what was summed so far shrinks to fit.
A tile of scores has a fixed size, however long the sequence: this is the loop that a GPU
kernel runs (rung `triton_forward`).

Left out: thrift in training. Autograd keeps every tile for the backward pass, which adds
up to the whole matrix again: rung `recompute` cures that.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from attncourse import softmax, tiles
from attncourse._convert import widened
from attncourse.call import Call
from attncourse.grouped import product

BLOCK_Q, BLOCK_KV = 256, 512


def attend(
    q: Tensor, k: Tensor, v: Tensor, call: Call, block_q: int = BLOCK_Q, block_kv: int = BLOCK_KV
) -> tuple[Tensor, Tensor]:
    """Attend tile by tile.

    Parameters
    ----------
    q, k, v : Tensor, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Any floating-point type, any device; Hkv divides H.
    call : Call
        What else was asked for.
    block_q, block_kv : int
        Queries and keys in a tile.

    Returns
    -------
    out : Tensor, shape (..., H, L, Ev)
        0 in the rows that see no key.
    lse : Tensor, shape (..., H, L)
        In nats, float32 or wider; -inf in the rows that see no key.

    Notes
    -----
    `block_q` · `block_kv` scores a head stand in memory at once. Keys and values are read
    once for every block of queries. **Source:** Dao et al. 2022, Algorithm 1
    (arXiv:2205.14135), with the loops swapped as in Dao 2023, section 3.1 (arXiv:2307.08691).
    """
    q, k, v = widened(q, k, v)
    outs, lses = [], []
    for rows in tiles.blocks(0, q.shape[-2], block_q) or [slice(0, 0)]:
        q_block = q[..., rows, :] * call.scale  # (..., H, l, E)
        out, lse = _one_block(q_block, k, v, call.key_blocks(rows, block_kv))
        outs.append(out)  # (..., H, l, Ev)
        lses.append(lse)  # (..., H, l)
    return torch.cat(outs, dim=-2), torch.cat(lses, dim=-1)


def _one_block(
    q_block: Tensor, k: Tensor, v: Tensor, key_blocks: Iterable[Call]
) -> tuple[Tensor, Tensor]:
    """Take a block of queries past all the blocks of keys that it may see."""
    row_sum = q_block.new_zeros(*q_block.shape[:-1], 1)  # (..., H, l, 1)
    row_max = torch.full_like(row_sum, -torch.inf)
    acc: Tensor | None = None  # (..., H, l, Ev), not yet divided by row_sum
    for tile in key_blocks:
        k_block, v_block = tile.cut(k, v)
        scores = product(q_block, k_block.mT)  # (..., H, l, s)
        scores = tile.finish(scores)
        row_max, row_sum, weights, shrink = softmax.fold_block(row_max, row_sum, scores)
        found = product(tile.drop(weights), v_block)  # (..., H, l, Ev)
        acc = found if acc is None else acc.mul_(shrink).add_(found)
    if acc is None:
        # Zeros that autograd traces to all three, so that no keys at all still give gradients.
        nothing = q_block[..., :0].sum() + k[..., :0].sum() + v[..., :0].sum()
        acc = v.new_zeros(*q_block.shape[:-1], v.shape[-1]) + nothing
    return softmax.close(row_max, row_sum, acc)
