"""A small tiled attention, forward and backward: the correct kernel behind the suspects.

It is what a reader of chapters 16 to 18 would write: queries and keys in blocks of 16, a
running maximum, lse kept, weights recomputed on the way back. It has no masks but the causal
one, and no second derivatives. Rung `recompute` is the same idea with everything in it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

BLOCK = 16


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    is_causal: bool = False,
    enable_gqa: bool = False,
    *,
    return_lse: bool = False,
) -> Any:
    """Attend tile by tile.

    Parameters
    ----------
    query, key, value : Tensor, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Any floating-point type; with `enable_gqa`, Hkv divides H.
    is_causal, enable_gqa, return_lse
        As in `attncourse.attention`.

    Returns
    -------
    out : Tensor, shape (..., H, L, Ev)
        0 where there is no key.
    lse : Tensor, shape (..., H, L)
        Only with `return_lse`, in nats; -inf where there is no key. It passes no gradient on.

    Raises
    ------
    ValueError
        When the heads differ and `enable_gqa` does not allow it.
    """
    if query.shape[-3] != key.shape[-3] and not enable_gqa:
        raise ValueError(f"query has {query.shape[-3]} heads, key has {key.shape[-3]}")
    out, lse = Tiled.apply(query, key, value, is_causal)
    return (out, lse) if return_lse else out


class Tiled(torch.autograd.Function):
    """Both passes, tied together for autograd."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, is_causal: bool
    ) -> tuple[Tensor, Tensor]:
        """Walk over the tiles; keep the inputs, `out` and `lse`."""
        q, k, v = widen(query, key, value)
        out = q.new_zeros(*q.shape[:-1], v.shape[-1])  # (..., H, L, Ev)
        lse = q.new_zeros(*q.shape[:-1], 1)  # (..., H, L, 1)
        for rows in blocks(0, q.shape[-2]):
            row_max = q.new_full(lse[..., rows, :].shape, -torch.inf)  # (..., H, l, 1)
            row_sum = torch.zeros_like(row_max)
            acc = torch.zeros_like(out[..., rows, :])  # (..., H, l, Ev)
            for cols in key_blocks(rows, k.shape[-2], is_causal):
                scores = tile_scores(q, k, rows, cols, is_causal)  # (..., H, l, s)
                new_max = torch.maximum(row_max, scores.amax(-1, keepdim=True))
                shrink = torch.exp(row_max - new_max)
                weights = torch.exp(scores - new_max)
                row_sum = row_sum * shrink + weights.sum(-1, keepdim=True)
                acc = acc * shrink + weights @ v[..., cols, :]
                row_max = new_max
            out[..., rows, :] = acc / row_sum.masked_fill(row_sum == 0, 1.0)
            lse[..., rows, :] = row_max + row_sum.log()
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.is_causal, ctx.like = is_causal, (query, key)
        lse = lse.squeeze(-1)
        ctx.mark_non_differentiable(lse)
        return out.to(query.dtype), lse

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        """Walk over the same tiles again, and make each tile of weights a second time."""
        if torch.is_grad_enabled():
            raise RuntimeError("the bug hunt's kernel has no second derivatives")
        q, k, v, out, lse = ctx.saved_tensors
        query, key = ctx.like
        scale, grad_out = q.shape[-1] ** -0.5, grad_out.to(q.dtype)
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        delta = (grad_out * out).sum(-1, keepdim=True)  # (..., H, L, 1)
        for rows in blocks(0, q.shape[-2]):
            for cols in key_blocks(rows, k.shape[-2], ctx.is_causal):
                scores = tile_scores(q, k, rows, cols, ctx.is_causal)
                weights = torch.exp(scores - lse[..., rows, :])  # (..., H, l, s)
                dv[..., cols, :] += weights.mT @ grad_out[..., rows, :]
                dweights = grad_out[..., rows, :] @ v[..., cols, :].mT
                dscores = weights * (dweights - delta[..., rows, :])
                dq[..., rows, :] += scale * dscores @ k[..., cols, :]
                dk[..., cols, :] += scale * dscores.mT @ q[..., rows, :]
        groups = key.shape[-3], query.shape[-3] // max(key.shape[-3], 1)
        dk, dv = (grad.unflatten(-3, groups).sum(-3) for grad in (dk, dv))
        return dq.to(query.dtype), dk.to(query.dtype), dv.to(query.dtype), None


def widen(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute in float32 at least, with one key and value head a query head."""
    wide = torch.promote_types(query.dtype, torch.float32)
    group = query.shape[-3] // max(key.shape[-3], 1)
    k, v = (x.to(wide).repeat_interleave(group, -3) for x in (key, value))
    return query.to(wide), k, v


def blocks(start: int, stop: int) -> list[slice]:
    """Cut a range into slices of `BLOCK`; the last may be shorter."""
    return [slice(i, min(i + BLOCK, stop)) for i in range(start, stop, BLOCK)]


def key_blocks(rows: slice, seq_len_kv: int, is_causal: bool) -> list[slice]:
    """List the blocks of keys that these queries may see."""
    return blocks(0, min(rows.stop, seq_len_kv) if is_causal else seq_len_kv)


def tile_scores(q: Tensor, k: Tensor, rows: slice, cols: slice, is_causal: bool) -> Tensor:
    """Return one tile of scores, -inf where the causal mask hides."""
    scores = q.shape[-1] ** -0.5 * (q[..., rows, :] @ k[..., cols, :].mT)  # (..., H, l, s)
    if is_causal:
        queries = torch.arange(rows.start, rows.stop, device=q.device)[:, None]
        seen = queries >= torch.arange(cols.start, cols.stop, device=q.device)
        scores = scores.masked_fill(~seen, -torch.inf)
    return scores
