"""Rung 6, tiled: a block of keys at a time, with a running maximum and sum.

New here: the softmax of a row is finished before its row of scores exists. `fold_block`
takes in one block of keys; when the maximum grows, what was summed so far shrinks to fit.
A tile of scores has a fixed size, however long the sequence: this is the loop that a GPU
kernel runs (rung `triton_forward`).

Left out: thrift in training. Autograd keeps every tile for the backward pass, which adds
up to the whole matrix again: rung `recompute` cures that.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attncourse import dropout, masks, tiles
from attncourse import scores as order

BLOCK_Q, BLOCK_KV = 128, 512


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
    q = query.to(wide) * (query.shape[-1] ** -0.5 if scale is None else scale)
    k, v = key.to(wide), value.to(wide)
    shift = masks.offset(q.shape[-2], k.shape[-2], causal_align)
    hiding |= {"attn_mask": attn_mask, "is_causal": is_causal, "shift": shift}

    outs, lses = [], []
    for rows in tiles.blocks(0, q.shape[-2], block_q) or [slice(0, 0)]:
        q_block = q[..., rows, :]  # (..., H, l, E)
        row_sum = q_block.new_zeros(*q_block.shape[:-1], 1)  # (..., H, l, 1)
        row_max = torch.full_like(row_sum, -torch.inf)
        # Zeros that autograd traces to the query, so that no keys at all still give gradients.
        acc = q_block[..., :0] @ v.new_zeros(0, v.shape[-1])  # (..., H, l, Ev)
        for cols in _key_blocks(rows, k.shape[-2], block_kv, hiding):
            k_block, v_block = _drop_unseen(q, k, v, rows, cols, hiding)
            scores = tiles.by_group(q_block, k_block.transpose(-1, -2))  # (..., H, l, s)
            scores, _ = order.finish(scores, rows, cols, **_needed(rows, cols, hiding))
            row_max, row_sum, weights, shrink = fold_block(row_max, row_sum, scores)
            if dropout_p:
                kept = dropout.keep(weights, dropout_p, dropout_seed, rows, cols)
                weights = weights * kept / (1 - dropout_p)
            acc = acc * shrink + tiles.by_group(weights, v_block)
        out, lse = _divide(row_max, row_sum, acc)
        outs.append(out)
        lses.append(lse)
    out = torch.cat(outs, dim=-2).to(query.dtype)
    return (out, torch.cat(lses, dim=-1)) if return_lse else out


def fold_block(
    row_max: Tensor, row_sum: Tensor, scores: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Fold one block of keys into the running maximum and sum.

    Parameters
    ----------
    row_max, row_sum : Tensor, shape (..., l, 1)
        Largest score so far (-inf before any) and the sum of exp(score - row_max).
    scores : Tensor, shape (..., l, s)
        This block, s >= 1; -inf where hidden. Its memory is used for the weights.

    Returns
    -------
    row_max, row_sum : Tensor, shape (..., l, 1)
        The same two, now including this block.
    weights : Tensor, shape (..., l, s)
        exp(score - row_max), for this block.
    shrink : Tensor, shape (..., l, 1)
        At most 1: what everything summed before must be multiplied by.

    Notes
    -----
    Any number may be subtracted from a row, so the maximum counts as a constant in the
    backward pass. A row that has seen nothing yet subtracts 0.
    **Source:** Milakov and Gimelshein 2018, Algorithm 3 (arXiv:1805.02867).
    """
    new_max = torch.maximum(row_max, scores.detach().amax(-1, keepdim=True))  # (..., l, 1)
    centre = new_max.masked_fill(new_max == -torch.inf, 0.0)
    shrink = (row_max - centre).exp()
    weights = scores.sub_(centre).exp_()
    return new_max, row_sum * shrink + weights.sum(-1, keepdim=True), weights, shrink


def _divide(row_max: Tensor, row_sum: Tensor, acc: Tensor) -> tuple[Tensor, Tensor]:
    """Turn the running numbers of finished rows into out and lse."""
    blind = row_sum == 0
    row_sum = row_sum.masked_fill(blind, 1.0)
    lse = (row_sum.log() + row_max).squeeze(-1)  # (..., H, l), -inf where blind
    return acc / row_sum, lse


def _key_blocks(rows: slice, seq_len_kv: int, block_kv: int, hiding: dict[str, Any]) -> list[slice]:
    """Cut the keys that a block of queries may see by position into blocks."""
    cols = slice(0, seq_len_kv)
    if hiding["is_causal"]:
        cols = tiles.span(rows, seq_len_kv, hiding["shift"], hiding.get("window_size"))
    return tiles.blocks(cols.start, cols.stop, block_kv)


def _needed(rows: slice, cols: slice, hiding: dict[str, Any]) -> dict[str, Any]:
    """Leave the causal mask out where every query of the tile sees every key of it."""
    clear = tiles.clear(rows, cols.stop, hiding["shift"], hiding.get("window_size"))
    whole = clear.start <= cols.start and cols.stop <= clear.stop
    return hiding | {"is_causal": hiding["is_causal"] and not whole}


def _drop_unseen(
    q: Tensor, k: Tensor, v: Tensor, rows: slice, cols: slice, hiding: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Cut keys and values out, with zeros where a mask lets no query of the tile look."""
    k_block, v_block = k[..., cols, :], v[..., cols, :]
    if hiding["attn_mask"] is None:
        return k_block, v_block
    names = ("attn_mask", "is_causal", "shift")
    seen = order.allowed(
        q, rows, cols, *(hiding[name] for name in names), hiding.get("window_size")
    )
    return order.drop_unseen(k_block, seen), order.drop_unseen(v_block, seen)
