"""Rung 2, matmul: the loops become two matrix products around a stable softmax.

New here: all queries meet all keys at once in Q·Kᵀ, and all weights meet all values at
once. NumPy's `@` leaves the axes in front alone, so batches and heads come for free.

Left out: gradients (rung `by_hand`, then `batched`), and any thrift: the whole (L, S)
matrix of scores stands in memory.
"""

from __future__ import annotations

import numpy as np

from attncourse import softmax
from attncourse.call import Call


def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, call: Call
) -> tuple[np.ndarray, np.ndarray]:
    """Compute softmax(scale · Q·Kᵀ)·V with two matrix products.

    Parameters
    ----------
    q, k, v : ndarray, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Float32 or wider.
    call : Call
        What else was asked for.

    Returns
    -------
    out : ndarray, shape (..., H, L, Ev)
        0 in the rows that see no key.
    lse : ndarray, shape (..., H, L)
        In nats; -inf in the rows that see no key.

    Notes
    -----
    2·L·S·(E + Ev) FLOPs a head and L·S numbers of memory.
    **Source:** Vaswani et al. 2017, equation 1 (arXiv:1706.03762).
    """
    if call.enable_gqa:  # a key head for each query head
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], axis=-3) for x in (k, v))
    k, v = call.cut(k, v)

    scores = call.scale * (q @ k.swapaxes(-1, -2))  # (..., H, L, S)
    scores = call.finish(scores)
    weights = softmax.stable(scores)  # (..., H, L, S)
    out = call.drop(weights) @ v  # (..., H, L, Ev)
    return out, softmax.logsumexp(scores)
