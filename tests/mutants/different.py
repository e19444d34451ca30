"""Right attention functions, each written in another way than the package's.

The suite must pass all of them: it holds a function to what attention is, not to how it is
computed. None has a feature that its arguments do not name.
"""

import functools

import numpy as np
import torch

from attncourse import softmax


def _wide(function):
    """Compute in float32 at least, and return the type of the query."""

    @functools.wraps(function)
    def in_wide_type(query, key, value, *args, **kwargs):
        wide = np.promote_types(query.dtype, np.float32)
        arrays = (array.astype(wide) for array in (query, key, value))
        result = function(*arrays, *args, **kwargs)
        if isinstance(result, tuple):
            return result[0].astype(query.dtype), result[1]
        return result.astype(query.dtype)

    return in_wide_type


@_wide
def in_the_log_domain(query, key, value, scale=None, return_lse=False):
    """Take logarithms of the weights first, by a tree of logaddexp."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = scale * query @ key.swapaxes(-1, -2)
    if scores.shape[-1]:
        lse = np.logaddexp.reduce(scores, axis=-1)
    else:
        lse = np.full(scores.shape[:-1], -np.inf, scores.dtype)
    out = np.exp(scores - lse[..., None]) @ value
    return (out, lse) if return_lse else out


@_wide
def by_ratios(query, key, value):
    """Compare each key with every other: weight i is 1 / sum over j of exp(s_j - s_i)."""
    scores = query.shape[-1] ** -0.5 * query @ key.swapaxes(-1, -2)
    with np.errstate(over="ignore"):
        ratios = np.exp(scores[..., None, :] - scores[..., :, None]).sum(-1)
    return (1 / ratios) @ value


def in_float64(query, key, value, is_causal=False):
    """Convert to float64, compute, and convert back."""
    q, k, v = (array.astype(np.float64) for array in (query, key, value))
    seen = np.ones((q.shape[-2], k.shape[-2]), bool)
    if is_causal:
        seen = np.tri(*seen.shape, dtype=bool)
    used = seen.any(0)[:, None]
    scores = q @ np.where(used, k, 0).swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    weights = softmax.stable(np.where(seen, scores, -np.inf))
    return (weights @ np.where(used, v, 0)).astype(query.dtype)


@_wide
def keys_sorted_by_score(query, key, value):
    """Sort each query's scores and add them up from the smallest to the largest."""
    if not key.shape[-2]:
        return np.zeros((*query.shape[:-1], value.shape[-1]), query.dtype)
    scores = query @ key.swapaxes(-1, -2) * query.shape[-1] ** -0.5
    order = np.argsort(scores, -1)
    ranked = np.take_along_axis(scores, order, -1)
    weights = np.exp(ranked - ranked[..., -1:])
    sorted_values = np.take_along_axis(value[..., None, :, :], order[..., None], -2)
    total = weights.sum(-1)[..., None]
    return np.einsum("...s,...sv->...v", weights, sorted_values) / total


@_wide
def merged_halves(query, key, value, is_causal=False, return_lse=False):
    """Cut the keys in two until one is left, and merge the parts by their lse."""
    out, lse = _halves(query, key, value, is_causal, 0)
    return (out, lse) if return_lse else out


def _halves(query, key, value, is_causal, first):
    num_keys, rows = key.shape[-2], np.arange(query.shape[-2])
    if num_keys == 0 or (is_causal and first >= len(rows)):
        empty = np.full(query.shape[:-1], -np.inf, query.dtype)
        return np.zeros((*query.shape[:-1], value.shape[-1]), query.dtype), empty
    if num_keys == 1:
        lse = (query * key).sum(-1) * query.shape[-1] ** -0.5
        out = np.broadcast_to(value, (*query.shape[:-1], value.shape[-1]))
        return out, np.where((rows < first) & is_causal, -np.inf, lse).astype(query.dtype)
    cut = num_keys // 2
    left = _halves(query, key[..., :cut, :], value[..., :cut, :], is_causal, first)
    right = _halves(query, key[..., cut:, :], value[..., cut:, :], is_causal, first + cut)
    return softmax.merge(*left, *right)


@_wide
def one_key_at_a_time(query, key, value, is_causal=False, window_size=None):
    """Keep a finished output all the time and move it towards each new value."""
    out = np.zeros((*query.shape[:-1], value.shape[-1]), query.dtype)
    lse = np.full((*query.shape[:-1], 1), -np.inf, query.dtype)
    rows = np.arange(query.shape[-2])[:, None]
    for j in range(min(key.shape[-2], query.shape[-2]) if is_causal else key.shape[-2]):
        score = (query * key[..., j : j + 1, :]).sum(-1, keepdims=True) * query.shape[-1] ** -0.5
        if is_causal:
            gap = rows - j
            seen = (gap >= 0) & (gap < (window_size or np.inf))
            score = np.where(seen, score, -np.inf)
        grown = np.logaddexp(lse, score)
        share = np.exp(score - np.where(grown == -np.inf, 0, grown))
        out, lse = out + share * (value[..., j : j + 1, :] - out), grown
    return out


def einsum_by_group(query, key, value, is_causal=False, enable_gqa=False, attn_mask=None):
    """Give the groups of query heads an axis of their own in torch's einsum.

    Boolean masks only, and heads are needed: say so with `features`.
    """
    wide = torch.promote_types(query.dtype, torch.float32)
    heads, kv_heads = query.shape[-3], key.shape[-3]
    q = query.to(wide).unflatten(-3, (kv_heads, heads // kv_heads))
    seen = torch.ones(*query.shape[:-1], key.shape[-2], dtype=torch.bool)
    if is_causal:
        seen = seen.tril()
    if attn_mask is not None:
        seen = seen & attn_mask
    seen = seen.unflatten(-3, q.shape[-4:-2])
    used = seen.any(-2).any(-2)[..., None]
    k, v = (array.to(wide).masked_fill(~used, 0.0) for array in (key, value))
    scores = torch.einsum("...hgle,...hse->...hgls", q, k) * q.shape[-1] ** -0.5
    some = seen.any(-1, keepdim=True)
    weights = scores.masked_fill(~seen & some, -torch.inf).softmax(-1).masked_fill(~seen, 0.0)
    out = torch.einsum("...hgls,...hsv->...hglv", weights, v)
    return out.flatten(-4, -3).to(query.dtype)


def one_query_mapped(query, key, value, scale=None):
    """Write it for one query and one head, and let torch.vmap do the rest."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    wide = torch.promote_types(query.dtype, torch.float32)

    def one_query(q, k, v):
        return (scale * (k @ q)).softmax(-1) @ v

    mapped = torch.vmap(one_query, in_dims=(0, None, None))
    for _ in range(query.ndim - 2):
        mapped = torch.vmap(mapped)
    return mapped(query.to(wide), key.to(wide), value.to(wide)).to(query.dtype)


def powers_of_two(query, key, value, is_causal=False, return_lse=False):
    """Fold log2(e) into the scale and take powers of two, as kernels do."""
    wide = torch.promote_types(query.dtype, torch.float32)
    q, k, v = query.to(wide) * (query.shape[-1] ** -0.5 / np.log(2)), key.to(wide), value.to(wide)
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
    seen = seen.tril() if is_causal else seen
    k, v = (array.masked_fill(~seen.any(0)[:, None], 0.0) for array in (k, v))
    scores = (q @ k.mT).masked_fill(~seen, -torch.inf)
    if not k.shape[-2]:
        lse = q.new_full(q.shape[:-1], -torch.inf)
        out = (scores @ v).to(query.dtype)
        return (out, lse) if return_lse else out
    peak = scores.detach().amax(-1, keepdim=True)
    weights = torch.exp2(scores - peak)
    total = weights.sum(-1, keepdim=True)
    out = (weights @ v / total).to(query.dtype)
    lse = ((peak + total.log2()) * np.log(2))[..., 0]
    return (out, lse) if return_lse else out


TRIANGLES = {}


@_wide
def remembers_triangles(query, key, value, is_causal=False):
    """Keep causal masks between calls, by both lengths, and hand the output out turned."""
    shape = query.shape[-2], key.shape[-2]
    hidden = TRIANGLES.setdefault(shape, ~np.tri(*shape, dtype=bool)) & is_causal
    used = ~hidden.all(0)[:, None]
    key, value = np.where(used, key, 0), np.where(used, value, 0)
    scores = np.where(hidden, -np.inf, query @ key.swapaxes(-1, -2) * query.shape[-1] ** -0.5)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    turned = value.swapaxes(-1, -2) @ (weights / weights.sum(-1, keepdims=True)).swapaxes(-1, -2)
    return turned.swapaxes(-1, -2)


def added_masks(query, key, value, attn_mask=None, scale=None):
    """Turn boolean masks into 0 and -inf, and let torch broadcast them; no gradients of masks."""
    wide = torch.promote_types(query.dtype, torch.float32)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    shape = (*query.shape[:-1], key.shape[-2])
    mask = torch.zeros(()) if attn_mask is None else attn_mask
    if mask.requires_grad:
        raise NotImplementedError("no gradients of attn_mask")
    if mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
    mask = mask.to(wide).expand(shape)
    used = (mask != -torch.inf).any(-2)[..., None]
    k, v = (array.to(wide).masked_fill(~used, 0.0) for array in (key, value))
    some = (mask != -torch.inf).any(-1, keepdim=True)
    scores = scale * query.to(wide) @ k.mT + mask.masked_fill(~some, 0.0)
    return (scores.softmax(-1).masked_fill(~some, 0.0) @ v).to(query.dtype)


# Each with its features; None: found out from its arguments and by trial calls.
DIFFERENT = (
    (in_the_log_domain, None),
    (by_ratios, None),
    (in_float64, None),
    (keys_sorted_by_score, None),
    (merged_halves, None),
    (one_key_at_a_time, None),
    (einsum_by_group, {"batch", "causal", "gqa", "bool_mask", "grad", "half"}),
    (one_query_mapped, None),
    (powers_of_two, None),
    (remembers_triangles, None),
    (added_masks, None),
)
