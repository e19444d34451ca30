"""Rung 2, matmul: the loops become two matrix products around a stable softmax.

New here: all queries meet all keys at once in Q·Kᵀ, and all weights meet all values at
once. NumPy's `@` leaves the axes in front alone, so batches and heads come for free.

Left out: gradients (rung `by_hand`, then `batched`), and any thrift: the whole (L, S)
matrix of scores stands in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse import dropout, masks, softmax
from attncourse import scores as order


def attention(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    attn_mask: np.ndarray | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    causal_align: str = "top_left",
    dropout_seed: int = 0,
    return_lse: bool = False,
    **hiding: Any,
) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """Compute softmax(scale · Q·Kᵀ)·V with two matrix products.

    Parameters
    ----------
    query, key, value : ndarray, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Float32 or wider.
    attn_mask, dropout_p, is_causal, scale, enable_gqa, causal_align, dropout_seed, return_lse
        As in `attncourse.attention`.
    **hiding
        `window_size`, `softcap`, `alibi_slopes`, handed on to `attncourse.scores.finish`.

    Returns
    -------
    out : ndarray, shape (..., H, L, Ev)
        0 in the rows that see no key.
    lse : ndarray, shape (..., H, L)
        Only with `return_lse`, in nats; -inf in the rows that see no key.

    Notes
    -----
    2·L·S·(E + Ev) FLOPs a head and L·S numbers of memory.
    **Source:** Vaswani et al. 2017, equation 1 (arXiv:1706.03762).
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key = np.repeat(key, groups, axis=-3)  # (..., H, S, E)
        value = np.repeat(value, groups, axis=-3)  # (..., H, S, Ev)
    rows, cols = slice(0, query.shape[-2]), slice(0, key.shape[-2])
    shift = masks.offset(rows.stop, cols.stop, causal_align)
    width = hiding.get("window_size")
    seen = order.allowed(query, rows, cols, attn_mask, is_causal, shift, width)
    key, value = order.drop_unseen(key, seen), order.drop_unseen(value, seen)

    hiding |= {"attn_mask": attn_mask, "is_causal": is_causal, "shift": shift}
    scores = scale * (query @ key.swapaxes(-1, -2))  # (..., H, L, S)
    scores, _ = order.finish(scores, rows, cols, **hiding)
    weights = softmax.stable(scores)  # (..., H, L, S)
    if dropout_p:
        kept = dropout.keep(weights, dropout_p, dropout_seed)
        weights = weights * kept / (1 - dropout_p)
    out = weights @ value  # (..., H, L, Ev)
    return (out, softmax.logsumexp(scores)) if return_lse else out
