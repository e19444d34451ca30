"""The order of operations between Q·Kᵀ and softmax, fixed once for every rung.

scale -> ALiBi and float mask added -> softcap -> boolean masks (-inf). Each function
works on any block of rows and columns, so that rungs which never build the whole
(L, S) matrix obey the same order as those which do.

Left out: the products before and the softmax after.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse import masks
from attncourse._validate import is_bool, library_of

__all__ = ["allowed", "cut", "cut_seen", "drop_unseen", "finish", "gap", "softcap_slope"]


def finish(
    scores: Any,
    rows: slice,
    cols: slice,
    *,
    attn_mask: Any = None,
    is_causal: bool = False,
    shift: int = 0,
    window_size: int | None = None,
    softcap: float | None = None,
    alibi_slopes: Any = None,
) -> tuple[Any, Any]:
    """Take one block of scaled scores through ALiBi, masks and softcap.

    Parameters
    ----------
    scores : ndarray or Tensor, shape (..., l, s)
        ``scale * q @ k.T`` for the queries in `rows` and the keys in `cols`.
    rows, cols : slice
        Which queries and keys these are; start and stop are given.
    attn_mask : ndarray or Tensor, broadcastable to (..., L, S), optional
        The whole mask: boolean (True = attend) or float (added; -inf hides).
    is_causal : bool, default False
        Hide the keys after each query.
    shift : int, default 0
        Query i stands at key position i + shift (see `attncourse.masks.offset`).
    window_size : int, optional
        W: the own key and the W - 1 before it. Needs `is_causal`.
    softcap : float, optional
        c: scores become c * tanh(score / c), before anything is hidden.
    alibi_slopes : ndarray or Tensor, shape (H,) or (..., H), optional
        Each head's penalty per position of distance.

    Returns
    -------
    scores : ndarray or Tensor, shape (..., l, s)
        Ready for softmax: -inf where hidden.
    allowed : ndarray or Tensor of bool, broadcastable to (..., l, s), or None
        What may be seen; None when nothing is hidden.

    Notes
    -----
    A float mask's -inf hides even under a softcap, which would lift -inf to -c.
    **Source:** for the ALiBi term Press et al. 2022, section 3 (arXiv:2108.12409).
    """
    library = library_of(scores)
    if alibi_slopes is not None:
        distance = abs(gap(scores, rows, cols, shift))  # (l, s)
        scores = scores - alibi_slopes[..., None, None] * _in_type_of(scores, distance)
    if attn_mask is not None and not is_bool(attn_mask):
        scores = scores + cut(attn_mask, rows, cols)
    if softcap is not None:
        scores = softcap * library.tanh(scores / softcap)
    seen = allowed(scores, rows, cols, attn_mask, is_causal, shift, window_size)
    if seen is not None:
        scores = library.where(seen, scores, -np.inf)
    return scores, seen


def allowed(
    like: Any,
    rows: slice,
    cols: slice,
    attn_mask: Any = None,
    is_causal: bool = False,
    shift: int = 0,
    window_size: int | None = None,
) -> Any:
    """Combine everything that hides keys by AND, for one block.

    Parameters
    ----------
    like : ndarray or Tensor
        Any array of the right library and device.
    rows, cols, attn_mask, is_causal, shift, window_size
        As in `finish`.

    Returns
    -------
    ndarray or Tensor of bool, broadcastable to (..., l, s), or None
        True = attend; None when nothing is hidden.
    """
    seen = None
    if is_causal:
        seen = masks.visible(gap(like, rows, cols, shift), window_size)  # (l, s)
    if attn_mask is not None:
        given = cut(attn_mask, rows, cols)
        given = given if is_bool(given) else given != -np.inf
        seen = given if seen is None else seen & given
    return seen


def drop_unseen(array: Any, seen: Any) -> Any:
    """Put zeros in the rows of keys or values that no query may see.

    Parameters
    ----------
    array : ndarray or Tensor, shape (..., Hkv, S, E)
        Keys or values.
    seen : ndarray or Tensor of bool, broadcastable to (..., H, L, S), or None
        What may be seen.

    Returns
    -------
    ndarray or Tensor
        `array` itself when `seen` is None, else a cleaned copy.

    Notes
    -----
    A hidden weight is 0, but 0 · NaN is NaN: what nobody may look at must not be multiplied.
    """
    if seen is None:
        return array
    used = seen.any(-2)  # (..., H, S), a head axis of 1, or (S,)
    if used.ndim > 1 and array.ndim > 2 and used.shape[-2] > array.shape[-3]:
        num_kv_heads = array.shape[-3]
        groups = (*used.shape[:-2], num_kv_heads, used.shape[-2] // num_kv_heads, used.shape[-1])
        used = used.reshape(groups).any(-2)  # (..., Hkv, S)
    library = library_of(array)
    return library.where(used[..., None], array, library.zeros_like(array))


def drop_blind(query: Any, seen: Any) -> Any:
    """Put zeros in the rows of queries that may see no key.

    Parameters
    ----------
    query : ndarray or Tensor, shape (..., H, L, E)
        Queries.
    seen : ndarray or Tensor of bool, broadcastable to (..., H, L, S), or None
        What may be seen.

    Returns
    -------
    ndarray or Tensor
        `query` itself when `seen` is None, else a cleaned copy: a NaN in a query that asks
        nobody must not reach the gradient of a key.
    """
    if seen is None:
        return query
    return library_of(query).where(seen.any(-1)[..., None], query, 0.0)


def cut_seen(
    k: Any,
    v: Any,
    rows: slice,
    cols: slice,
    *,
    attn_mask: Any = None,
    is_causal: bool = False,
    shift: int = 0,
    window_size: int | None = None,
    **_: Any,
) -> tuple[Any, Any]:
    """Cut a block of keys and values out, with zeros where no query of the block may look.

    Parameters
    ----------
    k, v : ndarray or Tensor, shapes (..., Hkv, S, E), (..., Hkv, S, Ev)
        All keys and values.
    rows, cols : slice
        Which queries and keys the block holds; each key is seen by position.
    attn_mask, is_causal, shift, window_size
        As in `finish`, whose other arguments are taken and not used.

    Returns
    -------
    k, v : ndarray or Tensor, shapes (..., Hkv, s, E), (..., Hkv, s, Ev)
        Views where there is no `attn_mask`, else cleaned copies.
    """
    k, v = k[..., cols, :], v[..., cols, :]
    if attn_mask is None:
        return k, v
    seen = allowed(k, rows, cols, attn_mask, is_causal, shift, window_size)
    return drop_unseen(k, seen), drop_unseen(v, seen)


def softcap_slope(scores: Any, softcap: float) -> Any:
    """Return the derivative of the softcap, from its own result.

    Parameters
    ----------
    scores : ndarray or Tensor, shape (..., l, s)
        Finished scores, -inf where hidden.
    softcap : float
        c, as in `finish`.

    Returns
    -------
    ndarray or Tensor, shape (..., l, s)
        1 - (score / c)², the slope of c · tanh(x / c); 0 where hidden.
    """
    library = library_of(scores)
    hidden = scores == -np.inf
    return library.where(hidden, 0.0, 1 - (library.where(hidden, 0.0, scores) / softcap) ** 2)


def cut(attn_mask: Any, rows: slice, cols: slice) -> Any:
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


def _in_type_of(scores: Any, distance: Any) -> Any:
    """Turn whole numbers into the floating-point type of the scores."""
    if isinstance(scores, np.ndarray):
        return distance.astype(scores.dtype)
    return distance.to(scores.dtype)


def gap(like: Any, rows: slice, cols: slice, shift: int) -> Any:
    """Return the position of each query minus that of each key, shape (l, s).

    Parameters
    ----------
    like : ndarray or Tensor
        Any array of the right library and device.
    rows, cols, shift
        As in `finish`.

    Returns
    -------
    ndarray or Tensor of int, shape (l, s)
        0 at a query's own key, negative in its future.
    """
    library = library_of(like)
    where = {} if library is np else {"device": like.device}
    queries = library.arange(rows.start, rows.stop, **where) + shift
    return queries[:, None] - library.arange(cols.start, cols.stop, **where)
