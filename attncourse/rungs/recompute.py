"""Rung 7, recompute: a backward pass that needs no (L, S) matrix either.

New here: the forward pass keeps only `out` and two numbers a row, the largest score and the sum
of exp(score - largest). Where the backward pass wants a tile of weights it makes it again:
exp(score - largest) / sum. Autograd would have kept them; a second look at the keys is cheaper
than that memory. The row average of the softmax's gradient needs no tile at all: it is
(grad_out · out).

Their logarithm in one number, the lse, would do for most rows. But float32 has no room for
log(4) beside a score of -1e9, and the weights would come out four times too large.

Left out: gradients of gradients (the backward pass is not differentiable itself; rung
`batched` has those), and the GPU (rung `triton`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncourse import softmax, tiles
from attncourse._convert import widened, without_autocast
from attncourse.call import Call
from attncourse.grouped import product, summed_product

BLOCK_Q, BLOCK_KV = 128, 512
# exp(x) = 2 ** (x · log2(e)), the faster exponential.
LOG2_E = 1.4426950408889634


def attend(
    q: Tensor, k: Tensor, v: Tensor, call: Call, block_q: int = BLOCK_Q, block_kv: int = BLOCK_KV
) -> tuple[Tensor, Tensor]:
    """Attend tile by tile, forwards and backwards.

    Parameters
    ----------
    q, k, v : Tensor, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Any floating-point type, any device; Hkv divides H.
    call : Call
        What else was asked for; a float mask and slopes get gradients.
    block_q, block_kv : int
        Queries and keys in a tile.

    Returns
    -------
    out : Tensor, shape (..., H, L, Ev)
        In the type of `q`; 0 in the rows that see no key, whose gradients are 0.
    lse : Tensor, shape (..., H, L)
        In nats, float32 or wider; -inf in the rows that see no key. It passes gradients on.

    Notes
    -----
    Five matrix products a tile on the way back, where a stored matrix needs four: 5/4 of
    the FLOPs for 1/S of the memory. **Source:** Dao et al. 2022, section 3.1 and appendix
    B.4 (arXiv:2205.14135).
    """
    rest = replace(call, attn_mask=None, alibi_slopes=None)
    # Both passes must make the same weights, also where autocast would round only one of them.
    with without_autocast(q):
        return _Recompute.apply(q, k, v, call.attn_mask, call.alibi_slopes, rest, block_q, block_kv)


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
        call: Call,
        block_q: int,
        block_kv: int,
    ) -> tuple[Tensor, Tensor]:
        """Walk over the tiles; keep the inputs, `out`, and two numbers a row."""
        q, k, v = widened(query, key, value)
        call = replace(call, attn_mask=attn_mask, alibi_slopes=slopes)
        out = q.new_zeros(*q.shape[:-1], v.shape[-1])  # (..., H, L, Ev)
        row_max, row_sum = q.new_zeros(2, *q.shape[:-1], 1)  # (..., H, L, 1)
        for rows in tiles.blocks(0, q.shape[-2], block_q):
            q_block = q[..., rows, :] * call.scale  # (..., H, l, E)
            part = _forward_block(q_block, k, v, call.key_blocks(rows, block_kv))
            row_max[..., rows, :], row_sum[..., rows, :], out[..., rows, :] = part
        out, lse = softmax.close(row_max, row_sum, out)
        ctx.save_for_backward(query, key, value, attn_mask, slopes, out, row_max, row_sum)
        ctx.call, ctx.blocks = replace(call, attn_mask=None, alibi_slopes=None), (block_q, block_kv)
        ctx.set_materialize_grads(False)
        return out.to(query.dtype), lse

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor | None, grad_lse: Tensor | None) -> tuple[Any, ...]:
        """Walk over the same tiles, and add up what each sends to its rows and columns."""
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise RuntimeError("rung 'recompute' has no second derivatives; take rung='batched'")
        query, key, value, attn_mask, slopes, out, row_max, row_sum = ctx.saved_tensors
        call = replace(ctx.call, attn_mask=attn_mask, alibi_slopes=slopes)
        grad_out = torch.zeros_like(out) if grad_out is None else grad_out.to(out.dtype)
        results = Results(out, row_max, row_sum, grad_out, grad_lse)
        wants_mask, wants_slopes = ctx.needs_input_grad[3:5]
        q, k, v = widened(query, key, value)
        wanted = {"wants_mask": wants_mask, "wants_slopes": wants_slopes}
        grads = walk_back(q, k, v, call, results, *ctx.blocks, **wanted)
        narrow = (grad.to(query.dtype) for grad in grads[:3])
        return *narrow, *grads[3:], None, None, None


class Results(NamedTuple):
    """What a block of queries has found, and what comes back to it."""

    out: Tensor  # (..., H, L, Ev)
    row_max: Tensor  # (..., H, L, 1), -inf where no key was seen
    row_sum: Tensor  # (..., H, L, 1), of exp(score - row_max)
    grad_out: Tensor  # (..., H, L, Ev)
    grad_lse: Tensor | None = None  # (..., H, L)


class Gradients(NamedTuple):
    """Where the tiles add up what they send to the inputs."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    slopes: Tensor | None


def walk_back(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    call: Call,
    results: Results,
    block_q: int = BLOCK_Q,
    block_kv: int = BLOCK_KV,
    *,
    wants_mask: bool = False,
    wants_slopes: bool = False,
) -> Gradients:
    """Walk over the tiles again, and add up what each sends to its rows and columns.

    Parameters
    ----------
    q, k, v, call, block_q, block_kv
        As in `attend`; float32 or wider.
    results : Results
        The results of these queries. They may have met more keys than stand in `k`:
        from `row_max` and `row_sum` the weights of any part of the keys can be made again.
    wants_mask, wants_slopes : bool, default False
        Whether a float mask and slopes get a gradient.

    Returns
    -------
    Gradients
        Those that are due to these keys; None for what gets none.
    """
    grads = Gradients(
        *(_zeros(q), _zeros(k), _zeros(v)),
        _zeros(call.attn_mask) if wants_mask else None,
        _zeros(call.alibi_slopes) if wants_slopes else None,
    )
    average = (results.grad_out * results.out).sum(-1, keepdim=True)  # (..., H, L, 1)
    if results.grad_lse is not None:
        average = average - results.grad_lse[..., None]
    blind = results.row_max == -torch.inf
    row_max = results.row_max.masked_fill(blind, 0.0)
    # All that meets a row's weights is divided by their sum here, once, and not in every tile.
    row_sum = results.row_sum.masked_fill(blind, 1.0)
    grad_out, average = results.grad_out / row_sum, average / row_sum
    for rows in tiles.blocks(0, q.shape[-2], block_q):
        block = _Rows(*(x[..., rows, :] for x in (q, grad_out, row_max, average)))
        with without_autocast(q):
            _backward_block(block, k, v, call.key_blocks(rows, block_kv), grads)
    return grads


class _Rows(NamedTuple):
    """What the backward pass takes of a block of queries, (..., H, l, ·) each."""

    q: Tensor
    grad_out: Tensor  # divided by the sum of the row's weights, as the average is
    row_max: Tensor
    average: Tensor


def _forward_block(
    q_block: Tensor, k: Tensor, v: Tensor, key_blocks: Iterable[Call]
) -> tuple[Tensor, Tensor, Tensor]:
    """Take a block of queries past its keys, as rung `tiled` does."""
    row_sum = q_block.new_zeros(*q_block.shape[:-1], 1)  # (..., H, l, 1)
    row_max = torch.full_like(row_sum, -torch.inf)
    acc = q_block.new_zeros(*q_block.shape[:-1], v.shape[-1])  # (..., H, l, Ev)
    for tile in key_blocks:
        k_block, v_block = tile.cut(k, v)
        scores = product(q_block, k_block.mT)  # (..., H, l, s)
        scores = tile.finish(scores)
        row_max, row_sum, weights, shrink = softmax.fold_block(row_max, row_sum, scores)
        if tile.dropout_p:
            weights.mul_(tile.survived(weights))
        acc.mul_(shrink).add_(product(weights, v_block))
    return row_max, row_sum, acc


def _backward_block(
    block: _Rows, k: Tensor, v: Tensor, key_blocks: Iterable[Call], grads: Gradients
) -> None:
    """Take a block of queries past its keys again, and add to the gradients."""
    q_block, grad_out, row_max, average = block
    num_kv_heads = k.shape[-3] if k.ndim > 2 else 1
    for tile in key_blocks:
        k_block, v_block = tile.cut(k, v)
        scores = product(q_block * tile.scale, k_block.mT)  # (..., H, l, s)
        scores = tile.finish(scores)
        weights = (scores - row_max).mul_(LOG2_E).exp2_()  # made again
        grad_weights = product(grad_out, v_block.mT)  # (..., H, l, s)
        kept = weights
        if tile.dropout_p:
            survived = tile.survived(weights)
            grad_weights, kept = grad_weights.mul_(survived), weights * survived
        grads.v[..., tile.cols, :] += summed_product(kept, grad_out, num_kv_heads)
        grad_scores = grad_weights.sub_(average).mul_(weights)  # (..., H, l, s)
        if tile.softcap is not None:
            grad_scores.mul_(tile.softcap_slope(scores))
        _send_to_masks(grad_scores, tile, grads)
        grads.q[..., tile.rows, :] += tile.scale * product(grad_scores, k_block)
        from_rows = summed_product(grad_scores, q_block, num_kv_heads)
        grads.k[..., tile.cols, :] += tile.scale * from_rows


def _send_to_masks(grad_scores: Tensor, tile: Call, grads: Gradients) -> None:
    """Add a tile's part to the gradients of a float mask and of ALiBi's slopes."""
    if grads.mask is not None:
        part = tiles.cut_mask(grads.mask, tile.rows, tile.cols)
        part += grad_scores.sum_to_size(part.shape)
    if grads.slopes is not None:
        sent = (grad_scores * tile.gap(grad_scores).abs()).sum((-1, -2))
        grads.slopes.sub_(sent.sum_to_size(grads.slopes.shape))


def _zeros(like: Tensor) -> Tensor:
    return torch.zeros(like.shape, dtype=like.dtype, device=like.device)
