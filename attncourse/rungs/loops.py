"""Rung 1, loops: attention as three visible loops over single numbers.

New here: nothing is hidden in a matrix product. For each query, for each key it may see,
for each of the E components: one multiplication and one addition.

Left out: batches and heads (rung `batched`), and any speed at all. One head only, (L, E).
"""

from __future__ import annotations

import math

import numpy as np

from attncourse.call import Call


def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, call: Call
) -> tuple[np.ndarray, np.ndarray]:
    """Look up one query at a time, one key at a time, one number at a time.

    Parameters
    ----------
    q, k, v : ndarray, shapes (L, E), (S, E), (S, Ev)
        What is asked, what answers to it, and what is handed over.
    call : Call
        What else was asked for: the scale, and who may see whom.

    Returns
    -------
    out : ndarray, shape (L, Ev)
        One weighted sum of values per query; 0 where a query sees no key.
    lse : ndarray, shape (L,)
        Log-sum-exp of the visible scores, in nats; -inf where there is none.

    Notes
    -----
    L·S·(E + Ev) multiplications; memory for one row of scores.
    **Source:** Vaswani et al. 2017, equation 1 (arXiv:1706.03762).
    """
    (seq_len_q, width), seq_len_kv = q.shape, k.shape[0]
    out = np.zeros((seq_len_q, v.shape[1]), v.dtype)  # (L, Ev)
    lse = np.full(seq_len_q, -np.inf)  # (L,)

    for i in range(seq_len_q):
        scores = {}
        for j in range(seq_len_kv):
            if call.sees(i, j):
                dot_product = 0.0
                for e in range(width):
                    dot_product += float(q[i, e]) * float(k[j, e])
                scores[j] = call.scale * dot_product
        if scores:
            out[i], lse[i] = _weighted_sum(scores, v)
    return out, lse


def _weighted_sum(scores: dict[int, float], v: np.ndarray) -> tuple[list[float], float]:
    """Turn one query's scores into weights, and add up the values by weight."""
    largest = max(scores.values())
    exponentials = {j: math.exp(score - largest) for j, score in scores.items()}
    total = sum(exponentials.values())
    row = [sum(exponentials[j] / total * float(v[j, e]) for j in scores) for e in range(v.shape[1])]
    return row, largest + math.log(total)
