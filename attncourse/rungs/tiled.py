"""Rung 6, tiled: a block of keys at a time, with a running maximum and sum.

New here: no row of scores ever exists as a whole. `softmax.fold_block` takes in one block
of keys at a time; when the maximum grows, what was summed so far shrinks to fit.
A tile of scores has a fixed size, however long the sequence: this is the loop that a GPU
kernel runs (rung `triton_forward`).

Left out: thrift in training. Autograd keeps every tile for the backward pass, which adds
up to the whole matrix again: rung `recompute` cures that.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attncourse import dropout, masks, softmax, tiles
from attncourse import scores as order

BLOCK_Q, BLOCK_KV = 256, 512


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    causal_align: str = "top_left",
    dropout_seed: int = 0,
    return_lse: bool = False,
    block_q: int = BLOCK_Q,
    block_kv: int = BLOCK_KV,
    **hiding: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attend tile by tile.

    Parameters
    ----------
    query, key, value : Tensor, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Any floating-point type, any device; with `enable_gqa`, Hkv divides H.
    attn_mask, dropout_p, is_causal, scale, enable_gqa, causal_align, dropout_seed, return_lse
        As in `attncourse.attention`.
    block_q, block_kv : int
        Queries and keys in a tile.
    **hiding
        `window_size`, `softcap`, `alibi_slopes`, handed on to `attncourse.scores.finish`.

    Returns
    -------
    out : Tensor, shape (..., H, L, Ev)
        In the type of `query`; 0 in the rows that see no key.
    lse : Tensor, shape (..., H, L)
        Only with `return_lse`, in nats, float32 or wider; -inf in the rows that see no key.

    Notes
    -----
    `block_q` · `block_kv` scores a head stand in memory at once. Keys and values are read
    once for every block of queries. **Source:** Dao et al. 2022, Algorithm 1
    (arXiv:2205.14135), with the loops swapped as in Dao 2023, section 3.1 (arXiv:2307.08691).
    """
    wide = torch.promote_types(query.dtype, torch.float32)
    q, k, v = query.to(wide), key.to(wide), value.to(wide)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    shift = masks.offset(q.shape[-2], k.shape[-2], causal_align)
    hiding |= {"attn_mask": attn_mask, "is_causal": is_causal, "shift": shift}

    outs, lses = [], []
    for rows in tiles.blocks(0, q.shape[-2], block_q) or [slice(0, 0)]:
        q_block = q[..., rows, :] * scale  # (..., H, l, E)
        out, lse = _one_block(q_block, k, v, rows, block_kv, hiding, (dropout_p, dropout_seed))
        outs.append(out)  # (..., H, l, Ev)
        lses.append(lse)  # (..., H, l)
    out = torch.cat(outs, dim=-2).to(query.dtype)
    return (out, torch.cat(lses, dim=-1)) if return_lse else out


def _one_block(
    q_block: Tensor,
    k: Tensor,
    v: Tensor,
    rows: slice,
    block_kv: int,
    hiding: dict[str, Any],
    dropping: tuple[float, int],
) -> tuple[Tensor, Tensor]:
    """Take a block of queries past all the blocks of keys that it may see."""
    row_sum = q_block.new_zeros(*q_block.shape[:-1], 1)  # (..., H, l, 1)
    row_max = torch.full_like(row_sum, -torch.inf)
    acc: Tensor | None = None  # (..., H, l, Ev), not yet divided by row_sum
    names = "is_causal", "shift", "window_size"
    limits: dict[str, Any] = {name: hiding.get(name) for name in names}
    blocks = tiles.key_blocks(rows, k.shape[-2], block_kv, **limits)

    for cols in blocks:
        k_block, v_block = order.cut_seen(k, v, rows, cols, **hiding)
        scores = tiles.by_group(q_block, k_block.mT)  # (..., H, l, s)
        scores, _ = tiles.finish_in_place(scores, rows, cols, {}, **hiding)
        row_max, row_sum, weights, shrink = softmax.fold_block(row_max, row_sum, scores)
        if dropping[0]:
            kept = dropout.keep(weights, *dropping, rows, cols)
            weights = weights * kept / (1 - dropping[0])
        found = tiles.by_group(weights, v_block)  # (..., H, l, Ev)
        acc = found if acc is None else acc.mul_(shrink).add_(found)
    if acc is None:
        # Zeros that autograd traces to all three, so that no keys at all still give gradients.
        nothing = q_block[..., :0].sum() + k[..., :0].sum() + v[..., :0].sum()
        acc = v.new_zeros(*q_block.shape[:-1], v.shape[-1]) + nothing

    blind = row_sum == 0
    row_sum = row_sum.masked_fill(blind, 1.0)
    return acc / row_sum, (row_sum.log() + row_max).squeeze(-1)
