"""Rung 4, batched: whole batches of heads in torch, and autograd does the backward.

New here: groups of query heads share one key/value head without copying it (their rows
are stacked under each other, so one product serves the group), any floating-point type
is accumulated in float32 at least, and gradients flow, also through a row that sees
nothing, where they are 0.

Left out: thrift. The whole (L, S) matrix of scores is stored, and kept for the backward.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attncourse import dropout, masks, tiles
from attncourse import scores as order


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
    **hiding: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attend with torch, for any number of batch axes and for grouped heads.

    Parameters
    ----------
    query, key, value : Tensor, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Any floating-point type, any device; with `enable_gqa`, Hkv divides H.
    attn_mask, dropout_p, is_causal, scale, enable_gqa, causal_align, dropout_seed, return_lse
        As in `attncourse.attention`.
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
    Key/value head j serves the query heads j·g … j·g + g - 1, and its gradient is the sum over
    them. **Source:** Ainslie et al. 2023, section 2.2 (arXiv:2305.13245).
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    rows, cols = slice(0, query.shape[-2]), slice(0, key.shape[-2])
    hiding |= {
        "attn_mask": attn_mask,
        "is_causal": is_causal,
        "shift": masks.offset(rows.stop, cols.stop, causal_align),
    }
    wide = torch.promote_types(query.dtype, torch.float32)
    q, k, v = query.to(wide), key.to(wide), value.to(wide)
    seen = order.allowed(
        q, rows, cols, attn_mask, is_causal, hiding["shift"], hiding.get("window_size")
    )
    k, v = order.drop_unseen(k, seen), order.drop_unseen(v, seen)

    scores = scale * tiles.by_group(q, k.transpose(-1, -2))  # (..., H, L, S)
    scores, _ = order.finish(scores, rows, cols, **hiding)
    weights, lse = _softmax(scores)  # (..., H, L, S), (..., H, L)
    if dropout_p:
        weights = weights * dropout.keep(weights, dropout_p, dropout_seed) / (1 - dropout_p)
    out = tiles.by_group(weights, v).to(query.dtype)  # (..., H, L, Ev)
    return (out, lse) if return_lse else out


def _softmax(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights and log-sum-exp, with zeros and -inf for rows that see nothing."""
    if scores.shape[-1] == 0:
        return scores, scores.new_full(scores.shape[:-1], -torch.inf)
    row_max = scores.detach().amax(-1, keepdim=True)  # (..., L, 1)
    row_max = row_max.masked_fill(row_max == -torch.inf, 0.0)
    exponentials = (scores - row_max).exp()
    row_sum = exponentials.sum(-1, keepdim=True)  # (..., L, 1)
    empty = row_sum == 0
    row_sum = row_sum.masked_fill(empty, 1.0)
    lse = (row_sum.log() + row_max).masked_fill(empty, -torch.inf)
    return exponentials / row_sum, lse.squeeze(-1)
