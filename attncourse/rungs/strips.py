"""Rung 5, strips: a strip of queries at a time, and only the keys it may see.

New here: no (L, S) matrix. A strip of queries takes its scores, its softmax and its output
before the next strip starts, so memory grows with L and not with its square. A strip under
a causal mask or a window never touches the keys outside, and masks only the edges inside.

Left out: thrift in training. Autograd keeps every strip for the backward pass, which adds
up to the whole matrix again (rung `recompute` cures that), and a strip is as wide as the
keys it sees (rung `tiled` cuts it).
"""

from __future__ import annotations

import torch
from torch import Tensor

from attncourse import tiles
from attncourse._convert import widened
from attncourse.call import Call
from attncourse.grouped import product

# Queries in a strip: the more keys, the less it costs that its edges are half empty.
STRIP, MOST = 128, 256
# Scores that stand in memory at once, about: 2 MB in float32, near a core's cache.
BUDGET = 2**19


def attend(
    q: Tensor, k: Tensor, v: Tensor, call: Call, strip: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """Attend strip by strip.

    Parameters
    ----------
    q, k, v : Tensor, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Any floating-point type, any device; Hkv divides H.
    call : Call
        What else was asked for.
    strip : int, optional
        Queries in a strip: 128, up to 256 with more than 2048 keys, and 64 or less under a
        window, of which a strip should not be more than a half.

    Returns
    -------
    out : Tensor, shape (..., H, L, Ev)
        0 in the rows that see no key.
    lse : Tensor, shape (..., H, L), or None
        In nats, float32 or wider; -inf in the rows that see no key. Only if asked for.

    Notes
    -----
    `strip`·S scores for a few heads stand in memory at once. A causal mask halves the work,
    a window W makes it L·W. **Source:** Rabe and Staats 2021, section 2 (arXiv:2112.05682).
    """
    q, k, v = widened(q, k, v)
    strip = strip or _strip(k.shape[-2], call.window_size)
    outs, lses = [], []
    for kv_heads in _few_at_a_time(q, k, strip, call.window_size):
        out, lse = _few_heads(*_cut_heads(q, k, v, call, kv_heads), strip)
        outs.append(out)  # (..., few H, L, Ev)
        lses.append(lse)  # (..., few H, L)
    out = torch.cat(outs, dim=-3) if len(outs) > 1 else outs[0]
    if not call.return_lse:
        return out, None
    return out, torch.cat(lses, dim=-2) if len(lses) > 1 else lses[0]


def _few_heads(q: Tensor, k: Tensor, v: Tensor, call: Call, strip: int) -> tuple[Tensor, Tensor]:
    """Go down the strips of a few heads; where lse is not asked for it is empty."""
    outs, lses = [], []
    for rows in tiles.blocks(0, q.shape[-2], strip) or [slice(0, 0)]:
        part = call.at(rows, call.span(rows))
        k_strip, v_strip = part.cut(k, v)
        scores = product(q[..., rows, :] * call.scale, k_strip.mT)  # (..., H, l, s)
        scores = part.finish(scores)
        blind = part.blind(scores)  # (..., H, l, 1)
        if blind is not None:
            scores = scores.masked_fill_(blind, 0.0)
        weights = scores.softmax(-1)  # (..., H, l, s)
        out = product(part.drop(weights), v_strip)  # (..., H, l, Ev)
        outs.append(out if blind is None else out.masked_fill(blind, 0.0))
        lses.append(_lse(scores, blind) if call.return_lse else scores.new_empty(0))
    return torch.cat(outs, dim=-2), torch.cat(lses, dim=-1)


def _lse(scores: Tensor, blind: Tensor | None) -> Tensor:
    """Return the log-sum-exp of a strip; -inf in rows that see nothing."""
    if scores.shape[-1] == 0:
        return scores.new_full(scores.shape[:-1], -torch.inf)
    lse = scores.logsumexp(-1)  # (..., H, l)
    return lse if blind is None else lse.masked_fill(blind.squeeze(-1), -torch.inf)


def _strip(seq_len_kv: int, window_size: int | None) -> int:
    """Choose how many queries stand in a strip."""
    if window_size:
        return min(STRIP // 2, max(16, window_size // 2))
    return min(max(STRIP, seq_len_kv // 16), MOST)


def _few_at_a_time(q: Tensor, k: Tensor, strip: int, window_size: int | None) -> list[slice]:
    """Cut the key/value heads into groups whose strips fit the budget."""
    if q.ndim < 3:
        return [slice(0, 1)]
    width = min(k.shape[-2], strip + (window_size or k.shape[-2]))
    rows = min(strip, q.shape[-2]) * q.shape[:-2].numel() // max(k.shape[-3], 1)
    return tiles.blocks(0, k.shape[-3], max(1, BUDGET // max(rows * width, 1))) or [slice(0, 0)]


def _cut_heads(
    q: Tensor, k: Tensor, v: Tensor, call: Call, kv_heads: slice
) -> tuple[Tensor, Tensor, Tensor, Call]:
    """Take some key/value heads, and the query heads and masks that belong to them."""
    if q.ndim < 3 or kv_heads == slice(0, k.shape[-3]):
        return q, k, v, call
    group = q.shape[-3] // k.shape[-3]
    heads = slice(kv_heads.start * group, kv_heads.stop * group)
    few = (q[..., heads, :, :], k[..., kv_heads, :, :], v[..., kv_heads, :, :])
    return *few, call.of_heads(heads)
