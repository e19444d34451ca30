"""Rung 7, recompute: a backward pass that needs no (L, S) matrix either.

New here: the forward pass keeps only `out` and `lse`, one number a row. Where the backward
pass wants a tile of weights it makes it again: weights = exp(scores - lse). Autograd would
have kept them; a second look at the keys is cheaper than that memory. The row average of
the softmax's gradient needs no tile at all: it is (grad_out · out).

Left out: gradients of gradients (the backward pass is not differentiable itself; rung
`batched` has those), and the GPU (rung `triton`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncourse import dropout, masks, softmax, tiles
from attncourse import scores as order

BLOCK_Q, BLOCK_KV = 128, 512
# exp(x) = 2 ** (x · log2(e)), the faster exponential.
LOG2_E = 1.4426950408889634


class Settings(NamedTuple):
    """What a call fixes beside its tensors."""

    scale: float
    dropping: tuple[float, int]
    hiding: dict[str, Any]
    block_q: int
    block_kv: int


class _Rows(NamedTuple):
    """What the backward pass takes of a block of queries, (..., H, l, ·) each."""

    q: Tensor
    grad_out: Tensor
    lse: Tensor
    average: Tensor


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
    alibi_slopes: Tensor | None = None,
    dropout_seed: int = 0,
    return_lse: bool = False,
    block_q: int = BLOCK_Q,
    block_kv: int = BLOCK_KV,
    **hiding: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attend tile by tile, forwards and backwards.

    Parameters
    ----------
    query, key, value : Tensor, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Any floating-point type, any device; with `enable_gqa`, Hkv divides H.
    attn_mask, dropout_p, is_causal, scale, enable_gqa, causal_align, alibi_slopes
        As in `attncourse.attention`; a float mask and the slopes get gradients.
    dropout_seed, return_lse
        As in `attncourse.attention`; `lse` passes gradients on.
    block_q, block_kv : int
        Queries and keys in a tile.
    **hiding
        `window_size` and `softcap`, handed on to `attncourse.scores.finish`.

    Returns
    -------
    out : Tensor, shape (..., H, L, Ev)
        In the type of `query`; 0 in the rows that see no key, whose gradients are 0.
    lse : Tensor, shape (..., H, L)
        Only with `return_lse`, in nats, float32 or wider; -inf in the rows that see no key.

    Notes
    -----
    Five matrix products a tile on the way back, where a stored matrix needs four: 5/4 of
    the FLOPs for 1/S of the memory. **Source:** Dao et al. 2022, section 3.1 and appendix
    B.4 (arXiv:2205.14135).
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    shift = masks.offset(query.shape[-2], key.shape[-2], causal_align)
    hiding |= {"is_causal": is_causal, "shift": shift}
    settings = Settings(scale, (dropout_p, dropout_seed), hiding, block_q, block_kv)
    # Both passes must make the same weights, also where autocast would round only one of them.
    with torch.autocast(query.device.type, enabled=False):
        out, lse = _Recompute.apply(query, key, value, attn_mask, alibi_slopes, settings)
    return (out, lse) if return_lse else out


class _Recompute(torch.autograd.Function):
    """Forward and backward pass, tied together for autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None,
        slopes: Tensor | None,
        settings: Settings,
    ) -> tuple[Tensor, Tensor]:
        """Walk over the tiles; keep the inputs, `out` and `lse`."""
        q, k, v = _wide(query, key, value)
        out = q.new_zeros(*q.shape[:-1], v.shape[-1])  # (..., H, L, Ev)
        lse = q.new_zeros(q.shape[:-1])  # (..., H, L)
        hiding = settings.hiding | {"attn_mask": attn_mask, "alibi_slopes": slopes}
        for rows in tiles.blocks(0, q.shape[-2], settings.block_q):
            q_block = q[..., rows, :] * settings.scale  # (..., H, l, E)
            part = _attend(q_block, k, v, rows, settings._replace(hiding=hiding))
            out[..., rows, :], lse[..., rows] = part
        ctx.save_for_backward(query, key, value, attn_mask, slopes, out, lse)
        ctx.settings = settings
        ctx.set_materialize_grads(False)
        return out.to(query.dtype), lse

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor | None, grad_lse: Tensor | None) -> tuple[Any, ...]:
        """Walk over the same tiles, and add up what each sends to its rows and columns."""
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise RuntimeError("rung 'recompute' has no second derivatives; take rung='batched'")
        query, key, value, attn_mask, slopes, out, lse = ctx.saved_tensors
        hiding = ctx.settings.hiding | {"attn_mask": attn_mask, "alibi_slopes": slopes}
        settings = ctx.settings._replace(hiding=hiding)
        inputs = (*_wide(query, key, value), attn_mask, slopes)
        wanted = (True, True, True, *ctx.needs_input_grad[3:5])
        grad_out = torch.zeros_like(out) if grad_out is None else grad_out.to(out.dtype)
        grads = walk_back(inputs, out, lse, grad_out, settings, grad_lse=grad_lse, wanted=wanted)
        return *(g if g is None else g.to(query.dtype) for g in grads[:3]), *grads[3:], None


def walk_back(
    inputs: tuple[Tensor | None, ...],
    out: Tensor,
    lse: Tensor,
    grad_out: Tensor,
    settings: Settings,
    *,
    grad_lse: Tensor | None = None,
    wanted: tuple[bool, ...] = (True, True, True, False, False),
) -> list[Tensor | None]:
    """Walk over the tiles again, and add up what each sends to its rows and columns.

    Parameters
    ----------
    inputs : tuple of Tensor or None
        Query, key, value (float32 or wider), mask or None, slopes or None.
    out, lse : Tensor, shapes (..., H, L, Ev), (..., H, L)
        The results of these queries. They may have met more keys than stand in `inputs`:
        from the final `lse` the weights of any part of the keys can be made again.
    grad_out, grad_lse : Tensor, shaped as `out` and `lse`
        What comes back.
    settings : Settings
        Those of the forward pass.
    wanted : tuple of bool
        Which of the inputs get a gradient.

    Returns
    -------
    list of Tensor or None
        One gradient an input, those that are due to these keys.
    """
    average = (grad_out * out).sum(-1, keepdim=True)  # (..., H, L, 1)
    if grad_lse is not None:
        average = average - grad_lse[..., None]
    lse = lse.masked_fill(lse == -torch.inf, 0.0)[..., None]  # (..., H, L, 1)
    query, key, value = (x for x in inputs[:3] if x is not None)
    grads = [
        torch.zeros(x.shape, dtype=x.dtype, device=x.device) if x is not None and want else None
        for x, want in zip(inputs, wanted, strict=True)
    ]
    for rows in tiles.blocks(0, query.shape[-2], settings.block_q):
        block = _Rows(*(x[..., rows, :] for x in (query, grad_out, lse, average)))
        with torch.autocast(query.device.type, enabled=False):
            _send_back(block, key, value, rows, settings, grads)
    return grads


def _attend(
    q_block: Tensor, k: Tensor, v: Tensor, rows: slice, settings: Settings
) -> tuple[Tensor, Tensor]:
    """Take a block of queries past its keys, as rung `tiled` does."""
    row_sum = q_block.new_zeros(*q_block.shape[:-1], 1)  # (..., H, l, 1)
    row_max = torch.full_like(row_sum, -torch.inf)
    acc = q_block.new_zeros(*q_block.shape[:-1], v.shape[-1])  # (..., H, l, Ev)
    hiding = settings.hiding
    for cols in _key_blocks(rows, k.shape[-2], settings):
        k_block, v_block = order.cut_seen(k, v, rows, cols, **hiding)
        scores = tiles.by_group(q_block, k_block.mT)  # (..., H, l, s)
        scores, _ = tiles.finish_in_place(scores, rows, cols, {}, **hiding)
        row_max, row_sum, weights, shrink = softmax.fold_block(row_max, row_sum, scores)
        survived = _survived(weights, rows, cols, settings)
        weights = weights if survived is None else weights.mul_(survived)
        acc.mul_(shrink).add_(tiles.by_group(weights, v_block))
    blind = row_sum == 0
    row_sum = row_sum.masked_fill(blind, 1.0)
    return acc / row_sum, (row_sum.log() + row_max).squeeze(-1)


def _send_back(
    block: _Rows,
    k: Tensor,
    v: Tensor,
    rows: slice,
    settings: Settings,
    grads: list[Any],
) -> None:
    """Take a block of queries past its keys again, and add to the gradients."""
    q_block, grad_out, lse, average = block
    scale, hiding = settings.scale, settings.hiding
    num_kv_heads = k.shape[-3] if k.ndim > 2 else 1
    grad_q, grad_k, grad_v = grads[:3]
    for cols in _key_blocks(rows, k.shape[-2], settings):
        k_block, v_block = order.cut_seen(k, v, rows, cols, **hiding)
        scores = tiles.by_group(q_block * scale, k_block.mT)  # (..., H, l, s)
        scores, _ = tiles.finish_in_place(scores, rows, cols, {}, **hiding)
        weights = (scores - lse).mul_(LOG2_E).exp2_()  # made again
        grad_weights = tiles.by_group(grad_out, v_block.mT)  # (..., H, l, s)
        survived = _survived(weights, rows, cols, settings)
        if survived is not None:
            grad_weights.mul_(survived)
        kept = weights if survived is None else weights * survived
        grad_v[..., cols, :] += tiles.sum_by_group(kept, grad_out, num_kv_heads)
        grad_scores = grad_weights.sub_(average).mul_(weights)  # (..., H, l, s)
        if hiding.get("softcap") is not None:
            grad_scores.mul_(order.softcap_slope(scores, hiding["softcap"]))
        _send_to_masks(grad_scores, rows, cols, hiding["shift"], grads)
        grad_q[..., rows, :] += scale * tiles.by_group(grad_scores, k_block)
        from_rows = tiles.sum_by_group(grad_scores, q_block, num_kv_heads)
        grad_k[..., cols, :] += scale * from_rows


def _send_to_masks(
    grad_scores: Tensor, rows: slice, cols: slice, shift: int, grads: list[Any]
) -> None:
    """Add a tile's part to the gradients of a float mask and of ALiBi's slopes."""
    grad_mask, grad_slopes = grads[3:]
    if grad_mask is not None:
        part = order.cut(grad_mask, rows, cols)
        part += grad_scores.sum_to_size(part.shape)
    if grad_slopes is not None:
        distance = order.gap(grad_scores, rows, cols, shift).abs()  # (l, s)
        grad_slopes -= (grad_scores * distance).sum((-1, -2)).sum_to_size(grad_slopes.shape)


def _key_blocks(rows: slice, seq_len_kv: int, settings: Settings) -> list[slice]:
    """Cut the keys that a block of queries may see into blocks."""
    names = "is_causal", "shift", "window_size"
    limits: dict[str, Any] = {name: settings.hiding.get(name) for name in names}
    return tiles.key_blocks(rows, seq_len_kv, settings.block_kv, **limits)


def _survived(weights: Tensor, rows: slice, cols: slice, settings: Settings) -> Tensor | None:
    """Draw a tile's dropout, the same on both ways: 0 where dropped, else 1 / (1 - p)."""
    dropout_p, seed = settings.dropping
    if not dropout_p:
        return None
    return dropout.keep(weights, dropout_p, seed, rows, cols).to(weights.dtype) / (1 - dropout_p)


def _wide(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(x.to(torch.promote_types(x.dtype, torch.float32)) for x in tensors)
