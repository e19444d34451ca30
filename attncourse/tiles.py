"""What the tiled rungs share: which keys a block of queries meets, and how heads are grouped.

A causal mask or a window splits the keys of a block of queries into three kinds: those
that no query sees (skipped), those that every query sees (no mask needed) and the edges
in between. Grouped heads become rows: the queries that share a key are stacked, so one
matrix product serves the group.

Left out: softmax, and how a mask that is an array acts (`attncourse.scores`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse import scores as order

__all__ = [
    "blocks",
    "by_group",
    "clear",
    "finish_in_place",
    "fold",
    "key_blocks",
    "span",
    "sum_by_group",
    "unfold",
]


# What changes scores by more than position.
_ON_SCORES = ("attn_mask", "softcap", "alibi_slopes")


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


def finish_in_place(
    scores: Any, rows: slice, cols: slice, edge_masks: dict[Any, Any], **hiding: Any
) -> tuple[Any, Any]:
    """Do what `attncourse.scores.finish` does, in the memory of the scores where that is enough.

    Parameters
    ----------
    scores : Tensor, shape (..., l, s)
        Scaled scores of a block, which nobody else reads.
    rows, cols : slice
        Which queries and keys these are.
    edge_masks : dict
        Empty at first. Keeps the masks of the edges, which are alike from block to block, for
        other blocks of the same call.
    **hiding
        As in `attncourse.scores.finish`.

    Returns
    -------
    scores : Tensor, shape (..., l, s)
        Ready for softmax: -inf where hidden.
    allowed : Tensor of bool, broadcastable to (..., l, s), or None
        None too where position alone hides and some key is seen by all queries: no row is
        blind then, and only the edges were touched.
    """
    shift, window_size = hiding.get("shift", 0), hiding.get("window_size")
    inside = clear(rows, cols.stop, shift, window_size)
    first = max(inside.start, cols.start)
    if hiding.get("is_causal") and first < inside.stop:
        edges = [slice(cols.start, first), slice(inside.stop, cols.stop)]
        edges = [edge for edge in edges if edge.start < edge.stop]
        if not edges:
            hiding["is_causal"] = False
        elif all(hiding.get(name) is None for name in _ON_SCORES):
            for edge in edges:
                place = rows.start - edge.start, rows.stop - rows.start, edge.stop - edge.start
                if place not in edge_masks:
                    seen = order.allowed(scores, rows, edge, None, True, shift, window_size)
                    edge_masks[place] = ~seen  # (l, e)
                part = scores[..., edge.start - cols.start : edge.stop - cols.start]  # (..., l, e)
                part.masked_fill_(edge_masks[place], -np.inf)
            return scores, None
    return order.finish(scores, rows, cols, **hiding)


def fold(array: Any, num_kv_heads: int) -> Any:
    """Stack the rows of the query heads that share a key/value head.

    Parameters
    ----------
    array : ndarray or Tensor, shape (..., H, l, n)
        Anything with one row per query and head; with two axes it is returned as it is.
    num_kv_heads : int
        Hkv, a divisor of H.

    Returns
    -------
    ndarray or Tensor, shape (..., Hkv, g·l, n)
        g = H / Hkv heads under each other: one matrix product with that key/value head
        serves them all, and a sum over the rows sums over the group.

    Notes
    -----
    **Source:** Ainslie et al. 2023, section 2.2 (arXiv:2305.13245).
    """
    if array.ndim < 3 or array.shape[-3] == num_kv_heads:
        return array
    *batch, num_heads, rows, width = array.shape
    group = num_heads // num_kv_heads
    return array.reshape(*batch, num_kv_heads, group * rows, width)


def unfold(array: Any, num_heads: int) -> Any:
    """Undo `fold`: (..., Hkv, g·l, n) becomes (..., H, l, n) again.

    Parameters
    ----------
    array : ndarray or Tensor, shape (..., Hkv, g·l, n)
        Rows of grouped heads, stacked.
    num_heads : int
        H, a multiple of Hkv.

    Returns
    -------
    ndarray or Tensor, shape (..., H, l, n)
        A view where the memory layout allows one.
    """
    if array.ndim < 3 or array.shape[-3] == num_heads:
        return array
    *batch, num_kv_heads, rows, width = array.shape
    return array.reshape(*batch, num_heads, rows * num_kv_heads // num_heads, width)


def by_group(left: Any, right: Any) -> Any:
    """Multiply rows of H heads by the matrices of Hkv heads, each serving its group.

    Parameters
    ----------
    left : ndarray or Tensor, shape (..., H, l, n)
        One row per query and head.
    right : ndarray or Tensor, shape (..., Hkv, n, m)
        Hkv divides H; head j serves the left heads j·g … j·g + g - 1.

    Returns
    -------
    ndarray or Tensor, shape (..., H, l, m)
        The products; nothing of `right` was copied.
    """
    if left.ndim < 3:
        return left @ right
    return unfold(fold(left, right.shape[-3]) @ right, left.shape[-3])


def sum_by_group(left: Any, right: Any, num_kv_heads: int) -> Any:
    """Multiply transposed left by right, and sum over the heads of each group.

    Parameters
    ----------
    left, right : ndarray or Tensor, shapes (..., H, l, n), (..., H, l, m)
        One row per query and head.
    num_kv_heads : int
        Hkv, a divisor of H; not looked at where there is no head axis.

    Returns
    -------
    ndarray or Tensor, shape (..., Hkv, n, m)
        What a backward pass sends to keys and values: `by_group` read each of them in
        several places, so here these places are added up.
    """
    return fold(left, num_kv_heads).swapaxes(-1, -2) @ fold(right, num_kv_heads)


def _clip(first: int, stop: int, seq_len_kv: int) -> slice:
    """Keep a range inside 0 … S; a reversed one becomes empty."""
    first = min(max(first, 0), seq_len_kv)
    return slice(first, min(max(stop, first), seq_len_kv))
