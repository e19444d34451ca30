"""A correct dense attention in NumPy, written out in one function so that it can be mutated."""

import numpy as np

from attncourse import dropout


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
    kind = query.dtype
    wide = np.promote_types(kind, np.float32)
    query, key, value = query.astype(wide), key.astype(wide), value.astype(wide)
    num_queries, width = query.shape[-2:]
    num_keys = key.shape[-2]
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = np.repeat(key, groups, -3), np.repeat(value, groups, -3)

    shift = num_keys - num_queries if causal_align == "bottom_right" else 0
    gap = np.arange(num_queries)[:, None] + shift - np.arange(num_keys)
    seen = np.ones((*query.shape[:-1], num_keys), bool)
    if is_causal:
        seen &= gap >= 0
    if window_size is not None:
        seen &= gap < window_size
    if attn_mask is not None and attn_mask.dtype == bool:
        seen &= attn_mask
    if attn_mask is not None and attn_mask.dtype != bool:
        seen &= attn_mask != -np.inf
    used = seen.any(-2)[..., None]
    key, value = np.where(used, key, 0), np.where(used, value, 0)

    scale = width**-0.5 if scale is None else scale
    scores = scale * (query @ key.swapaxes(-1, -2))
    if alibi_slopes is not None:
        scores = scores - alibi_slopes[..., None, None] * abs(gap)
    if attn_mask is not None and attn_mask.dtype != bool:
        scores = scores + np.where(attn_mask == -np.inf, 0, attn_mask)
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    scores = np.where(seen, scores, -np.inf)

    peak = scores.max(-1, keepdims=True, initial=-np.inf)
    peak = np.where(peak == -np.inf, 0, peak)
    weights = np.exp(scores - peak)
    total = weights.sum(-1, keepdims=True)
    lse = (np.log(np.where(total == 0, 1, total)) + peak)[..., 0]
    lse = np.where(total[..., 0] == 0, -np.inf, lse)
    weights = weights / np.where(total == 0, 1, total)
    if dropout_p:
        seed = np.random.default_rng().integers(2**63) if dropout_seed is None else dropout_seed
        kept = dropout.keep(weights, dropout_p, int(seed))
        weights = weights * kept / (1 - dropout_p)
    out = (weights @ value).astype(kind)
    lse = lse.astype(wide)
    return (out, lse) if return_lse else out
