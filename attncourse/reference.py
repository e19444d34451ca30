"""The oracle: dense attention in float64 NumPy, plain and slow.

Every rung is held to this file, so it shares no code with any of them (only the random
numbers of dropout). It goes through the queries one by one, lists the keys that each may
see, and never touches another key: a NaN in a hidden place cannot reach the result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from attncourse import _validate, dropout

__all__ = ["allowed_keys", "attention"]


def allowed_keys(
    i: int,
    seq_len_q: int,
    seq_len_kv: int,
    *,
    is_causal: bool = False,
    causal_align: str = "top_left",
    window_size: int | None = None,
) -> range:
    """List the keys that query `i` may see before any `attn_mask`.

    Parameters
    ----------
    i : int
        The query, from 0 to `seq_len_q` - 1.
    seq_len_q, seq_len_kv : int
        L and S.
    is_causal, causal_align, window_size
        As in `attncourse.attention`.

    Returns
    -------
    range
        Key positions, possibly none.

    Examples
    --------
    >>> allowed_keys(1, 2, 5, is_causal=True)
    range(0, 2)
    >>> allowed_keys(1, 2, 5, is_causal=True, causal_align="bottom_right", window_size=2)
    range(3, 5)
    """
    if not is_causal:
        return range(seq_len_kv)
    own = i + (seq_len_kv - seq_len_q if causal_align == "bottom_right" else 0)
    first = 0 if window_size is None else own - window_size + 1
    return range(min(max(first, 0), seq_len_kv), min(max(own + 1, 0), seq_len_kv))


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    causal_align: str = "top_left",
    window_size: int | None = None,
    softcap: float | None = None,
    alibi_slopes: Any = None,
    dropout_seed: int | None = None,
    allowed: Any = None,
    return_lse: bool = False,
    return_weights: bool = False,
) -> Any:
    """Compute attention one query at a time, in float64.

    Parameters
    ----------
    query, key, value : array or Tensor, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Converted to float64; gradients are cut.
    attn_mask, dropout_p, is_causal, scale, causal_align, window_size, softcap, alibi_slopes
        As in `attncourse.attention`.
    enable_gqa : bool
        Accepted and not needed: heads are matched by their numbers.
    dropout_seed : int
        Needed with `dropout_p`.
    allowed : bool array, broadcastable to (..., H, L, S), optional
        What each query may see, said outright; combined with the rest by AND.
    return_lse, return_weights : bool
        Also return the log-sum-exp (..., H, L) in nats, or the weights (..., H, L, S) after
        dropout.

    Returns
    -------
    out : ndarray of float64, shape (..., H, L, Ev)
        0 in rows that see no key.
    lse, weights : ndarray of float64
        Where asked for, in this order; -inf and 0 in rows that see no key.

    Raises
    ------
    ValueError, TypeError
        With `dropout_p` but no `dropout_seed`, and for options and masks that
        `attncourse.attention` refuses.

    Notes
    -----
    **Source:** Vaswani et al. 2017, section 3.2.1 (arXiv:1706.03762).
    """
    _validate.options(dropout_p, is_causal, scale, causal_align, window_size, softcap, dropout_seed)
    q, k, v = (_float64(array) for array in (query, key, value))
    (seq_len_q, width), seq_len_kv = q.shape[-2:], k.shape[-2]
    scale = 1 / np.sqrt(width) if scale is None else float(scale)
    shape = (*q.shape[:-1], seq_len_kv)
    added, visible = _masks(attn_mask, allowed, shape)
    slopes = None if alibi_slopes is None else np.broadcast_to(_float64(alibi_slopes), shape[:-2])
    if dropout_p and dropout_seed is None:
        raise ValueError("the oracle wants a dropout_seed with dropout_p, got None")
    shift = seq_len_kv - seq_len_q if causal_align == "bottom_right" else 0
    may_see: Callable[..., range] = partial(
        allowed_keys, is_causal=is_causal, causal_align=causal_align, window_size=window_size
    )

    weights, lse = np.zeros(shape), np.full(shape[:-1], -np.inf)
    out = np.zeros((*shape[:-1], v.shape[-1]))
    kept = dropout.keep(weights, dropout_p, dropout_seed) if dropout_seed is not None else None
    for *head, i in product(*map(range, shape[:-1])):
        at, spot, kv = tuple(head), (*head, i), _serving(head, shape, k.shape)
        keys = np.array(may_see(i, seq_len_q, seq_len_kv)).astype(int)
        keys = keys[visible[spot][keys]]
        if keys.size == 0:
            continue
        scores = scale * (k[kv][keys] * q[spot]).sum(-1)
        if slopes is not None:
            scores = scores - slopes[at] * abs(i + shift - keys)
        scores = scores + added[spot][keys]
        if softcap is not None:
            scores = softcap * np.tanh(scores / softcap)
        lse[spot] = scores.max() + np.log(np.exp(scores - scores.max()).sum())
        weights[spot][keys] = np.exp(scores - lse[spot])
        if kept is not None:
            weights[spot] *= kept[spot] / (1 - dropout_p)
        out[spot] = (weights[spot][keys, None] * v[kv][keys]).sum(0)
    extra = ([lse] if return_lse else []) + ([weights] if return_weights else [])
    return (out, *extra) if extra else out


def _float64(array: Any) -> np.ndarray:
    if hasattr(array, "detach"):
        array = array.detach().cpu().double().numpy()
    return np.asarray(array, dtype=np.float64)


def _masks(attn_mask: Any, allowed: Any, shape: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Split what was given into numbers to add (finite) and what is visible."""
    visible = np.ones(shape, bool)
    if allowed is not None:
        visible = visible & np.broadcast_to(np.asarray(allowed, bool), shape)
    if attn_mask is None:
        return np.zeros(shape), visible
    if hasattr(attn_mask, "detach"):
        attn_mask = attn_mask.detach().cpu()
        attn_mask = attn_mask.double() if attn_mask.is_floating_point() else attn_mask.numpy()
    attn_mask = np.asarray(attn_mask)
    _validate.mask(attn_mask, shape)
    if attn_mask.dtype == bool:
        return np.zeros(shape), visible & np.broadcast_to(attn_mask, shape)
    added = np.broadcast_to(_float64(attn_mask), shape)
    hidden = np.isneginf(added)
    return np.where(hidden, 0.0, added), visible & ~hidden


def _serving(head: list[int], shape: tuple, key_shape: tuple) -> tuple[int, ...]:
    """Find the key/value head that serves a query head."""
    if not head:
        return ()
    return (*head[:-1], head[-1] // (shape[-3] // key_shape[-3]))
