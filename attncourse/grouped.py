"""Groups of query heads that share one key head, without a copy of it.

New here: grouped heads become rows. The queries that share a key are stacked under each other,
so one matrix product serves the group, and a sum over the rows sums over its heads.

Left out: a repeated key head for each query head, which is what rung `matmul` does.
"""

from __future__ import annotations

from typing import Any

from attncourse._validate import library_of

__all__ = ["product", "stack", "summed_product", "unstack", "without_unseen"]


def without_unseen(array: Any, seen: Any) -> Any:
    """Put zeros in the rows of keys or values that no query may see.

    Parameters
    ----------
    array : ndarray or Tensor, shape (..., Hkv, S, E)
        Keys or values.
    seen : ndarray or Tensor of bool, broadcastable to (..., H, L, S)
        True = attend.

    Returns
    -------
    ndarray or Tensor
        A cleaned copy.

    Notes
    -----
    A hidden weight is 0, but 0 · NaN is NaN: what nobody may look at must not be multiplied.
    """
    used = seen.any(-2)  # (..., H, S), a head axis of 1, or (S,)
    if used.ndim > 1 and array.ndim > 2 and used.shape[-2] > array.shape[-3]:
        num_kv_heads = array.shape[-3]
        groups = (*used.shape[:-2], num_kv_heads, used.shape[-2] // num_kv_heads, used.shape[-1])
        used = used.reshape(groups).any(-2)  # (..., Hkv, S)
    library = library_of(array)
    return library.where(used[..., None], array, library.zeros_like(array))


def stack(array: Any, num_kv_heads: int) -> Any:
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


def unstack(array: Any, num_heads: int) -> Any:
    """Undo `stack`: (..., Hkv, g·l, n) becomes (..., H, l, n) again.

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


def product(left: Any, right: Any) -> Any:
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
    return unstack(stack(left, right.shape[-3]) @ right, left.shape[-3])


def summed_product(left: Any, right: Any, num_kv_heads: int) -> Any:
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
        What a backward pass sends to keys and values: `product` read each of them in
        several places, so here these places are added up.
    """
    return stack(left, num_kv_heads).swapaxes(-1, -2) @ stack(right, num_kv_heads)
