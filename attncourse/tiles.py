"""What the tiled rungs share: which keys a block of queries meets.

A causal mask or a window splits the keys of a block of queries into three kinds: those
that no query sees (skipped), those that every query sees (no mask needed) and the edges
in between.

Left out: softmax, and what happens to scores before it (`attncourse.call`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse._validate import library_of

__all__ = [
    "blocks",
    "clear",
    "cut_mask",
    "gap",
    "key_blocks",
    "span",
]


def blocks(start: int, stop: int, size: int) -> list[slice]:
    """Cut a range into slices of `size`; the last may be shorter.

    Examples
    --------
    >>> blocks(0, 5, 3)
    [slice(0, 3, None), slice(3, 5, None)]
    """
    return [slice(first, min(first + size, stop)) for first in range(start, stop, size)]


def span(rows: slice, seq_len_kv: int, shift: int = 0, window_size: int | None = None) -> slice:
    """Tell which keys at least one query of a causal block may see.

    Parameters
    ----------
    rows : slice
        The block of queries; start and stop are given.
    seq_len_kv : int
        S, the number of keys.
    shift : int, default 0
        Query i stands at key position i + shift (see `attncourse.masks.offset`).
    window_size : int, optional
        W: the own key and the W - 1 before it; all the past by default.

    Returns
    -------
    slice
        Key positions inside 0 … S, possibly none. A tiled rung skips all others.

    Examples
    --------
    >>> span(slice(4, 6), 9, window_size=3)
    slice(2, 6, None)
    """
    first = 0 if window_size is None else rows.start + shift - window_size + 1
    return _clip(first, rows.stop + shift, seq_len_kv)


def clear(rows: slice, seq_len_kv: int, shift: int = 0, window_size: int | None = None) -> slice:
    """Tell which keys every query of a causal block may see.

    Parameters
    ----------
    rows, seq_len_kv, shift, window_size
        As in `span`.

    Returns
    -------
    slice
        Key positions inside 0 … S, possibly none. Their scores need no mask.

    Examples
    --------
    >>> clear(slice(4, 6), 9, window_size=3)
    slice(3, 5, None)
    """
    last = max(rows.stop - 1, rows.start)
    first = 0 if window_size is None else last + shift - window_size + 1
    return _clip(first, rows.start + shift + 1, seq_len_kv)


def key_blocks(
    rows: slice,
    seq_len_kv: int,
    block_kv: int,
    *,
    is_causal: bool,
    shift: int = 0,
    window_size: int | None = None,
) -> list[slice]:
    """Cut the keys that a block of queries may see into blocks.

    Parameters
    ----------
    rows, seq_len_kv, shift, window_size
        As in `span`.
    block_kv : int
        Keys in a block, at most.
    is_causal : bool
        Without it, all keys are cut.

    Returns
    -------
    list of slice
        Key positions, ascending; empty when nothing may be seen.
    """
    cols = span(rows, seq_len_kv, shift, window_size) if is_causal else slice(0, seq_len_kv)
    return blocks(cols.start, cols.stop, block_kv)


def gap(like: Any, rows: slice, cols: slice, shift: int) -> Any:
    """Return the position of each query minus that of each key, shape (l, s).

    Parameters
    ----------
    like : ndarray or Tensor
        Any array of the right library and device.
    rows, cols : slice
        Which queries and keys the block holds; start and stop are given.
    shift : int
        As in `span`.

    Returns
    -------
    ndarray or Tensor of int, shape (l, s)
        0 at a query's own key, negative in its future.
    """
    library = library_of(like)
    where = {} if library is np else {"device": like.device}
    queries = library.arange(rows.start, rows.stop, **where) + shift
    return queries[:, None] - library.arange(cols.start, cols.stop, **where)


def cut_mask(attn_mask: Any, rows: slice, cols: slice) -> Any:
    """Cut a block out of a mask; an axis of 1 stays, since it holds for all.

    Parameters
    ----------
    attn_mask : ndarray or Tensor, broadcastable to (..., L, S)
        The whole mask.
    rows, cols : slice
        Which queries and keys the block holds.

    Returns
    -------
    ndarray or Tensor, broadcastable to (..., l, s)
        A view, so that a gradient can be added to it.
    """
    while attn_mask.ndim < 2:
        attn_mask = attn_mask[None]
    row_part = rows if attn_mask.shape[-2] > 1 else slice(None)
    col_part = cols if attn_mask.shape[-1] > 1 else slice(None)
    return attn_mask[..., row_part, col_part]


def _clip(first: int, stop: int, seq_len_kv: int) -> slice:
    """Keep a range inside 0 … S; a reversed one becomes empty."""
    first = min(max(first, 0), seq_len_kv)
    return slice(first, min(max(stop, first), seq_len_kv))
