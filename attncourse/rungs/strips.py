"""Rung 5, strips: a strip of queries at a time, and only the keys it may see.

New here: no (L, S) matrix. A strip of queries takes its scores, its softmax and its output
before the next strip starts, so memory grows with L and not with its square. A strip under
a causal mask or a window never touches the keys outside, and masks only the edges inside.

Left out: thrift in training. Autograd keeps every strip for the backward pass, which adds
up to the whole matrix again (rung `recompute` cures that), and a strip is as wide as the
keys it sees (rung `tiled` cuts it).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attncourse import dropout, masks, tiles
from attncourse import scores as order

# Queries in a strip: the more keys, the less it costs that its edges are half empty.
STRIP, MOST = 128, 256
# Scores that stand in memory at once, about: 2 MB in float32, near a core's cache.
BUDGET = 2**19


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
    strip: int | None = None,
    **hiding: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attend strip by strip.

    Parameters
    ----------
    query, key, value : Tensor, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Any floating-point type, any device; with `enable_gqa`, Hkv divides H.
    attn_mask, dropout_p, is_causal, scale, enable_gqa, causal_align, dropout_seed, return_lse
        As in `attncourse.attention`.
    strip : int, optional
        Queries in a strip: 128, up to 256 with more than 2048 keys, and 64 or less under a
        window, of which a strip should not be more than a half.
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
    `strip`·S scores for a few heads stand in memory at once. A causal mask halves the work,
    a window W makes it L·W. **Source:** Rabe and Staats 2021, section 2 (arXiv:2112.05682).
    """
    wide = torch.promote_types(query.dtype, torch.float32)
    q, k, v = query.to(wide), key.to(wide), value.to(wide)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    shift = masks.offset(q.shape[-2], k.shape[-2], causal_align)
    hiding |= {"attn_mask": attn_mask, "is_causal": is_causal, "shift": shift}
    if strip is None:
        strip = min(max(STRIP, k.shape[-2] // 16), MOST)
        if hiding.get("window_size"):
            strip = min(STRIP // 2, max(16, hiding["window_size"] // 2))

    outs, lses = [], []
    edge_masks: dict[Any, Tensor] = {}
    for kv_heads in _few_at_a_time(q, k, strip, hiding.get("window_size")):
        few = _cut_heads(q, k, v, hiding, kv_heads)
        out, lse = _few_heads(*few, scale, edge_masks, strip, (dropout_p, dropout_seed), return_lse)
        outs.append(out)  # (..., few H, L, Ev)
        lses.append(lse)  # (..., few H, L)
    out = torch.cat(outs, dim=-3) if len(outs) > 1 else outs[0]
    out = out.to(query.dtype)
    if not return_lse:
        return out
    return out, torch.cat(lses, dim=-2) if len(lses) > 1 else lses[0]


def _few_at_a_time(q: Tensor, k: Tensor, strip: int, window_size: int | None) -> list[slice]:
    """Cut the key/value heads into groups whose strips fit the budget."""
    if q.ndim < 3:
        return [slice(0, 1)]
    width = min(k.shape[-2], strip + (window_size or k.shape[-2]))
    rows = min(strip, q.shape[-2]) * q.shape[:-2].numel() // max(k.shape[-3], 1)
    return tiles.blocks(0, k.shape[-3], max(1, BUDGET // max(rows * width, 1))) or [slice(0, 0)]


def _cut_heads(
    q: Tensor, k: Tensor, v: Tensor, hiding: dict[str, Any], kv_heads: slice
) -> tuple[Tensor, Tensor, Tensor, dict[str, Any], slice]:
    """Take some key/value heads, and the query heads, masks and slopes that belong to them."""
    if q.ndim < 3 or kv_heads == slice(0, k.shape[-3]):
        return q, k, v, hiding, slice(0, q.shape[-3] if q.ndim > 2 else 1)
    group = q.shape[-3] // k.shape[-3]
    heads = slice(kv_heads.start * group, kv_heads.stop * group)
    mask, slopes = hiding["attn_mask"], hiding.get("alibi_slopes")
    if mask is not None and mask.ndim > 2 and mask.shape[-3] > 1:
        hiding = hiding | {"attn_mask": mask[..., heads, :, :]}
    if slopes is not None:
        hiding = hiding | {"alibi_slopes": slopes[..., heads]}
    return q[..., heads, :, :], k[..., kv_heads, :, :], v[..., kv_heads, :, :], hiding, heads


def _few_heads(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    hiding: dict[str, Any],
    heads: slice,
    scale: float,
    edge_masks: dict[Any, Tensor],
    strip: int,
    dropping: tuple[float, int],
    return_lse: bool,
) -> tuple[Tensor, Tensor]:
    """Go down the strips of a few heads; without `return_lse` there is an empty lse."""
    outs, lses = [], []
    for rows in tiles.blocks(0, q.shape[-2], strip) or [slice(0, 0)]:
        cols = slice(0, k.shape[-2])
        if hiding["is_causal"]:
            cols = tiles.span(rows, cols.stop, hiding["shift"], hiding.get("window_size"))
        k_strip, v_strip = order.cut_seen(k, v, rows, cols, **hiding)
        scores = tiles.by_group(q[..., rows, :] * scale, k_strip.mT)  # (..., H, l, s)
        scores, seen = tiles.finish_in_place(scores, rows, cols, edge_masks, **hiding)
        blind = None if seen is None else ~seen.any(-1, keepdim=True)  # (..., H, l, 1)
        if blind is not None:
            scores = scores.masked_fill_(blind, 0.0)
        weights = scores.softmax(-1)  # (..., H, l, s)
        if dropping[0]:
            kept = dropout.keep(weights, *dropping, rows, cols, heads)
            weights = weights * kept / (1 - dropping[0])
        out = tiles.by_group(weights, v_strip)  # (..., H, l, Ev)
        outs.append(out if blind is None else out.masked_fill(blind, 0.0))
        lses.append(_lse(scores, blind) if return_lse else scores.new_empty(0))
    return torch.cat(outs, dim=-2), torch.cat(lses, dim=-1)


def _lse(scores: Tensor, blind: Tensor | None) -> Tensor:
    """Return the log-sum-exp of a strip; -inf in rows that see nothing."""
    if scores.shape[-1] == 0:
        return scores.new_full(scores.shape[:-1], -torch.inf)
    lse = scores.logsumexp(-1)  # (..., H, l)
    return lse if blind is None else lse.masked_fill(blind.squeeze(-1), -torch.inf)
