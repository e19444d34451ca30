"""Rung 1, loops: attention as three visible loops over single numbers.

New here: nothing is hidden in a matrix product. For each query, for each key it may see,
for each of the E components: one multiplication and one addition.

Left out: batches and heads (rung `batched`), and any speed at all. One head only, (L, E).
"""

from __future__ import annotations

import math

import numpy as np


def attention(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    attn_mask: np.ndarray | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    causal_align: str = "top_left",
    window_size: int | None = None,
    return_lse: bool = False,
) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """Look up one query at a time, one key at a time, one number at a time.

    Parameters
    ----------
    query, key, value : ndarray, shapes (L, E), (S, E), (S, Ev)
        What is asked, what answers to it, and what is handed over.
    attn_mask : ndarray of bool, broadcastable to (L, S), optional
        True = attend.
    is_causal, scale, causal_align, window_size, return_lse
        As in `attncourse.attention`.

    Returns
    -------
    out : ndarray, shape (L, Ev)
        One weighted sum of values per query; 0 where a query sees no key.
    lse : ndarray, shape (L,)
        Only with `return_lse`: log-sum-exp of the visible scores, in nats; else -inf.

    Notes
    -----
    L·S·(E + Ev) multiplications; memory for one row of scores.
    **Source:** Vaswani et al. 2017, equation 1 (arXiv:1706.03762).
    """
    (seq_len_q, width), seq_len_kv = query.shape, key.shape[0]
    scale = 1 / math.sqrt(width) if scale is None else scale
    shift = seq_len_kv - seq_len_q if causal_align == "bottom_right" else 0
    shape = seq_len_q, seq_len_kv
    mask = None if attn_mask is None else np.broadcast_to(attn_mask, shape)
    out = np.zeros((seq_len_q, value.shape[1]), value.dtype)  # (L, Ev)
    lse = np.full(seq_len_q, -np.inf)  # (L,)

    for i in range(seq_len_q):
        scores = {}
        for j in range(seq_len_kv):
            gap = i + shift - j  # negative in the future of query i
            if is_causal and not 0 <= gap < (window_size or math.inf):
                continue
            if mask is not None and not mask[i, j]:
                continue
            dot_product = 0.0
            for e in range(width):
                dot_product += float(query[i, e]) * float(key[j, e])
            scores[j] = scale * dot_product
        if scores:
            out[i], lse[i] = _weighted_sum(scores, value)
    return (out, lse) if return_lse else out


def _weighted_sum(scores: dict[int, float], value: np.ndarray) -> tuple[list[float], float]:
    """Turn one query's scores into weights, and add up the values by weight."""
    largest = max(scores.values())
    exponentials = {j: math.exp(score - largest) for j, score in scores.items()}
    total = sum(exponentials.values())
    row = [
        sum(exponentials[j] / total * float(value[j, e]) for j in scores)
        for e in range(value.shape[1])
    ]
    return row, largest + math.log(total)
