"""A correct tiled attention in torch, forward and backward by hand, to be mutated."""

import math

import torch

from attncourse import dropout

BLOCK_M, BLOCK_N = 16, 16


class Flash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, options):
        wide = torch.promote_types(query.dtype, torch.float32)
        q, k, v = query.to(wide), key.to(wide), value.to(wide)
        out = torch.empty((*q.shape[:-1], v.shape[-1]), dtype=wide)
        lse = torch.empty(q.shape[:-1], dtype=wide)
        peak, total = torch.empty_like(lse), torch.empty_like(lse)
        groups = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        for start in range(0, q.shape[-2], BLOCK_M):
            rows = slice(start, min(start + BLOCK_M, q.shape[-2]))
            row_max = torch.full((*q.shape[:2], rows.stop - rows.start, 1), -torch.inf, dtype=wide)
            row_sum = torch.zeros_like(row_max)
            acc = torch.zeros((*row_max.shape[:-1], v.shape[-1]), dtype=wide)
            for cols in key_tiles(rows, q.shape[-2], k.shape[-2], options):
                scores, _ = tile_scores(q, k, rows, cols, options)
                new_max = torch.maximum(row_max, scores.amax(-1, keepdim=True))
                centre = new_max.masked_fill(new_max == -torch.inf, 0.0)
                shrink = torch.exp(row_max - centre)
                weights = torch.exp(scores - centre)
                row_sum = row_sum * shrink + weights.sum(-1, keepdim=True)
                weights = weights * tile_dropout(weights, rows, cols, options)
                acc = acc * shrink + weights @ v[..., cols, :]
                row_max = new_max
            some = row_sum > 0
            safe_sum = torch.where(some, row_sum, 1.0)
            out[..., rows, :] = acc / safe_sum
            row_lse = torch.where(some, row_max + safe_sum.log(), -torch.inf)
            lse[..., rows] = row_lse[..., 0]
            peak[..., rows], total[..., rows] = row_max[..., 0], safe_sum[..., 0]
        ctx.save_for_backward(q, k, v, out, peak, total)
        ctx.options, ctx.groups, ctx.kind = options, groups, query.dtype
        ctx.mark_non_differentiable(lse)
        return out.to(query.dtype), lse

    @staticmethod
    def backward(ctx, grad_out, _):
        # Saved as constants, out and lse would make second derivatives wrong.
        if torch.is_grad_enabled():
            raise RuntimeError("no second derivatives")
        q, k, v, out, peak, total = ctx.saved_tensors
        options, scale = ctx.options, ctx.options["scale"]
        grad_out = grad_out.to(q.dtype)
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        delta = (grad_out * out).sum(-1, keepdim=True)
        # Not from the lse alone: beside a maximum of -1e30 the logarithm of the sum is lost.
        centre = peak.masked_fill(peak == -torch.inf, 0.0)[..., None]
        for start in range(0, q.shape[-2], BLOCK_M):
            rows = slice(start, min(start + BLOCK_M, q.shape[-2]))
            for cols in key_tiles(rows, q.shape[-2], k.shape[-2], options):
                scores, slope = tile_scores(q, k, rows, cols, options)
                weights = torch.exp(scores - centre[..., rows, :]) / total[..., rows, None]
                kept = tile_dropout(weights, rows, cols, options)
                dv[..., cols, :] += (weights * kept).mT @ grad_out[..., rows, :]
                dp = grad_out[..., rows, :] @ v[..., cols, :].mT * kept
                ds = weights * (dp - delta[..., rows, :]) * slope * scale
                dq[..., rows, :] += ds @ k[..., cols, :]
                dk[..., cols, :] += ds.mT @ q[..., rows, :]
        dk, dv = (grad.unflatten(1, (-1, ctx.groups)).sum(2) for grad in (dk, dv))
        return dq.to(ctx.kind), dk.to(ctx.kind), dv.to(ctx.kind), None


def key_tiles(rows, num_queries, num_keys, options):
    """List the tiles of keys that these rows may see, by causality and window."""
    shift = num_keys - num_queries if options["causal_align"] == "bottom_right" else 0
    first, last = 0, num_keys
    if options["is_causal"]:
        last = max(0, min(num_keys, rows.stop + shift))
    if options["window_size"] is not None:
        first = max(0, rows.start + shift - options["window_size"] + 1) // BLOCK_N * BLOCK_N
    return [slice(j, min(j + BLOCK_N, num_keys)) for j in range(first, last, BLOCK_N)]


def tile_scores(q, k, rows, cols, options):
    """Return the scores of one tile and the softcap's slope."""
    shift = k.shape[-2] - q.shape[-2] if options["causal_align"] == "bottom_right" else 0
    gap = torch.arange(rows.start, rows.stop)[:, None] + shift - torch.arange(cols.start, cols.stop)
    k_tile = k[..., cols, :]
    scores = options["scale"] * (q[..., rows, :] @ k_tile.mT)
    mask = options["attn_mask"]
    seen = torch.ones_like(gap, dtype=torch.bool)
    if options["is_causal"]:
        seen = gap >= 0
    if options["window_size"] is not None:
        seen = seen & (gap < options["window_size"])
    if options["alibi_slopes"] is not None:
        scores = scores - options["alibi_slopes"][..., None, None] * gap.abs()
    if mask is not None:
        mask = mask.expand(*q.shape[:-1], k.shape[-2])[..., rows, cols]
        if mask.dtype == torch.bool:
            seen = seen & mask
        else:
            seen = seen & (mask != -torch.inf)
            scores = scores + mask.masked_fill(mask == -torch.inf, 0.0)
    slope = torch.ones_like(scores)
    if options["softcap"] is not None:
        bent = torch.tanh(scores / options["softcap"])
        scores, slope = options["softcap"] * bent, 1 - bent**2
    return scores.masked_fill(~seen, -torch.inf), slope


def tile_dropout(weights, rows, cols, options):
    """Return 0 for dropped weights and 1 / (1 - p) for the others."""
    if not options["dropout_p"]:
        return 1.0
    kept = dropout.keep(weights, options["dropout_p"], options["dropout_seed"], rows, cols)
    return kept.to(weights.dtype) / (1 - options["dropout_p"])


def attention(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
    *,
    causal_align="top_left",
    window_size=None,
    softcap=None,
    alibi_slopes=None,
    dropout_seed=None,
    return_lse=False,
):
    if any(extra is not None and extra.requires_grad for extra in (attn_mask, alibi_slopes)):
        raise NotImplementedError("no gradients for attn_mask and alibi_slopes")
    if dropout_p and dropout_seed is None:
        dropout_seed = int(torch.randint(2**62, ()))
    options = {
        "attn_mask": attn_mask,
        "dropout_p": dropout_p,
        "is_causal": is_causal,
        "scale": query.shape[-1] ** -0.5 if scale is None else scale,
        "causal_align": causal_align,
        "window_size": window_size,
        "softcap": softcap,
        "alibi_slopes": alibi_slopes,
        "dropout_seed": dropout_seed,
    }
    q, k, v = (with_four_axes(array) for array in (query, key, value))
    if attn_mask is not None or is_causal:
        k, v = without_unseen(q, k, v, options)
    out, lse = Flash.apply(q, k, v, options)
    out, lse = out.reshape(*query.shape[:-1], value.shape[-1]), lse.reshape(query.shape[:-1])
    return (out, lse) if return_lse else out


def with_four_axes(array):
    """Return (B, H, L, E) for any number of axes."""
    if array.ndim == 2:
        return array[None, None]
    return array.reshape(math.prod(array.shape[:-3]), *array.shape[-3:])


def without_unseen(q, k, v, options):
    """Put zeros where no query may look, so that NaN there is harmless."""
    groups = q.shape[1] // k.shape[1]
    everything = slice(0, q.shape[-2]), slice(0, k.shape[-2])
    with torch.no_grad():
        scores, _ = tile_scores(q, k.repeat_interleave(groups, 1), *everything, options)
    used = (scores != -torch.inf).any(-2).reshape(*k.shape[:2], groups, k.shape[-2]).any(2)
    return (array.masked_fill(~used[..., None], 0.0) for array in (k, v))
