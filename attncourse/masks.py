"""Who may look at whom: boolean masks, True = attend.

Each function returns a plain NumPy array, so masks combine with `&`, are drawn by
`attncourse.plotting.mask`, and go to `attention(..., attn_mask=...)` on any rung.

Left out: how a mask acts on scores (`attncourse.call`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse._validate import ALIGNMENTS, whole

__all__ = ["block", "causal", "document", "offset", "padding", "visible", "window"]


def offset(seq_len_q: int, seq_len_kv: int, align: str) -> int:
    """Tell how far query 0 stands behind key 0.

    Parameters
    ----------
    seq_len_q, seq_len_kv : int
        Numbers of queries and of keys.
    align : {"top_left", "bottom_right"}
        Pin query 0 to key 0, or the last query to the last key.

    Returns
    -------
    int
        Query i stands at key position i + offset.

    Raises
    ------
    ValueError
        For another `align`.
    """
    if align not in ALIGNMENTS:
        raise ValueError(f"align must be one of {ALIGNMENTS}, got {align!r}")
    return seq_len_kv - seq_len_q if align == "bottom_right" else 0


def visible(gap: Any, window_size: int | None = None) -> Any:
    """Tell which gaps a causal mask, or a causal window, lets through.

    Parameters
    ----------
    gap : ndarray or Tensor of int, shape (..., L, S)
        Position of the query minus position of the key: 0 is the query's own key,
        a negative number lies in its future.
    window_size : int, optional
        W: let through the own key and the W - 1 before it; all the past by default.

    Returns
    -------
    ndarray or Tensor of bool, shape (..., L, S)
        True = attend.
    """
    seen = gap >= 0
    return seen if window_size is None else seen & (gap < window_size)


def causal(seq_len_q: int, seq_len_kv: int | None = None, *, align: str = "top_left") -> np.ndarray:
    """Hide the future: each query sees its own key and those before it.

    Parameters
    ----------
    seq_len_q : int
        L, the number of queries.
    seq_len_kv : int, optional
        S, the number of keys; L by default.
    align : {"top_left", "bottom_right"}
        Which corner the triangle is pinned to when L != S. With a cache the newest query
        is the last row and sees every key: that is "bottom_right".

    Returns
    -------
    ndarray of bool, shape (L, S)
        True = attend.

    Examples
    --------
    >>> causal(2, 3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0]])
    >>> causal(2, 3, align="bottom_right").astype(int)
    array([[1, 1, 0],
           [1, 1, 1]])
    """
    return visible(_gap(seq_len_q, seq_len_kv, align))


def window(
    seq_len_q: int, seq_len_kv: int | None = None, *, size: int, align: str = "top_left"
) -> np.ndarray:
    """Look back a fixed distance: the own key and the `size` - 1 before it.

    Parameters
    ----------
    seq_len_q : int
        L, the number of queries.
    seq_len_kv : int, optional
        S, the number of keys; L by default.
    size : int
        W, at least 1.
    align : {"top_left", "bottom_right"}
        As in `causal`.

    Returns
    -------
    ndarray of bool, shape (L, S)
        True = attend.

    Raises
    ------
    ValueError, TypeError
        When `size` is below 1, or no whole number.

    Examples
    --------
    >>> window(4, size=2).astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """
    if whole("size", size) < 1:
        raise ValueError(f"size must be at least 1, got {size}")
    return visible(_gap(seq_len_q, seq_len_kv, align), size)


def padding(lengths: Any, seq_len_kv: int) -> np.ndarray:
    """Hide what was appended to make the sequences of a batch equally long.

    Parameters
    ----------
    lengths : sequence of int, shape (B,)
        True lengths, each from 0 to `seq_len_kv`.
    seq_len_kv : int
        S, the padded length.

    Returns
    -------
    ndarray of bool, shape (B, 1, 1, S)
        True = a real token; broadcasts over heads and queries.

    Raises
    ------
    ValueError, TypeError
        When a length lies outside 0 … S, or is no whole number.

    Examples
    --------
    >>> padding([3, 1], 3)[:, 0, 0].astype(int)
    array([[1, 1, 1],
           [1, 0, 0]])
    """
    whole("seq_len_kv", seq_len_kv)
    sizes = np.asarray(lengths)
    if sizes.size and not np.issubdtype(sizes.dtype, np.integer):
        raise TypeError(f"lengths must be integers, got {sizes.dtype}")
    if sizes.ndim != 1:
        raise ValueError(f"lengths must be one number a sequence, got shape {sizes.shape}")
    if sizes.size and not (0 <= sizes.min() and sizes.max() <= seq_len_kv):
        raise ValueError(f"lengths must lie in 0 … {seq_len_kv}, got {sizes.tolist()}")
    return (np.arange(seq_len_kv) < sizes[:, None])[:, None, None, :]  # (B, 1, 1, S)


def block(seq_len_q: int, seq_len_kv: int | None = None, *, size: int) -> np.ndarray:
    """Cut the sequence into blocks that see only themselves.

    Parameters
    ----------
    seq_len_q : int
        L, the number of queries.
    seq_len_kv : int, optional
        S, the number of keys; L by default.
    size : int
        Positions in a block, at least 1; the last block may be shorter.

    Returns
    -------
    ndarray of bool, shape (L, S)
        True = attend.

    Raises
    ------
    ValueError, TypeError
        When `size` is below 1, or no whole number.

    Examples
    --------
    >>> block(3, size=2).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [0, 0, 1]])
    """
    if whole("size", size) < 1:
        raise ValueError(f"size must be at least 1, got {size}")
    seq_len_kv = seq_len_q if seq_len_kv is None else seq_len_kv
    _check_lengths(seq_len_q, seq_len_kv)
    return document(np.arange(seq_len_q) // size, np.arange(seq_len_kv) // size)


def document(ids_q: Any, ids_kv: Any = None) -> np.ndarray:
    """Keep packed documents apart: a query sees the keys with its own number.

    Parameters
    ----------
    ids_q : array of int, shape (..., L)
        Number of the document that each query belongs to.
    ids_kv : array of int, shape (..., S), optional
        The same for each key; `ids_q` by default.

    Returns
    -------
    ndarray of bool, shape (..., L, S)
        True = attend.

    Raises
    ------
    ValueError, TypeError
        When the numbers are no integers (a mask, for instance), or have no axis of positions.

    Examples
    --------
    >>> document([7, 7, 8]).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [0, 0, 1]])
    """
    ids_q = np.asarray(ids_q)
    ids_kv = ids_q if ids_kv is None else np.asarray(ids_kv)
    for name, ids in (("ids_q", ids_q), ("ids_kv", ids_kv)):
        if ids.size and not np.issubdtype(ids.dtype, np.integer):
            raise TypeError(f"{name} must be integers, got {ids.dtype}")
        if not ids.ndim:
            raise ValueError(f"{name} must be one number a position, got the single number {ids}")
    return ids_q[..., :, None] == ids_kv[..., None, :]


def _gap(seq_len_q: int, seq_len_kv: int | None, align: str) -> np.ndarray:
    """Return the position of each query minus that of each key, shape (L, S)."""
    seq_len_kv = seq_len_q if seq_len_kv is None else seq_len_kv
    _check_lengths(seq_len_q, seq_len_kv)
    rows = np.arange(seq_len_q) + offset(seq_len_q, seq_len_kv, align)
    return rows[:, None] - np.arange(seq_len_kv)


def _check_lengths(seq_len_q: int, seq_len_kv: int) -> None:
    """Refuse what counts no positions."""
    if min(whole("seq_len_q", seq_len_q), whole("seq_len_kv", seq_len_kv)) < 0:
        raise ValueError(f"lengths must not be negative, got {seq_len_q} and {seq_len_kv}")
