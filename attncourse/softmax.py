"""Four ways to turn a row of scores into weights, and the merge of two partial results.

New here: the largest score is subtracted before exponentials are taken, first with a pass
of its own (`stable`), then while the row is read once (`online`). `merge` is the same
trick between two halves of the keys; every tiled, split or distributed rung rests on it.

Left out: masks (`attncourse.masks`) and the order in which scores are made
(`attncourse.call`). A hidden score arrives here as -inf.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse._validate import library_of

__all__ = ["close", "fold", "fold_block", "logsumexp", "merge", "naive", "online", "stable"]


_LOG2_E = 1.4426950408889634


def naive(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    """Divide exponentials by their sum, as the formula says.

    Parameters
    ----------
    scores : ndarray
        Scores, any shape.
    axis : int, default -1
        The axis whose entries compete.

    Returns
    -------
    ndarray
        Weights of the same shape. In float64, a score above about 709 overflows to
        inf and its row to NaN; a row of -inf gives 0 / 0 = NaN.

    Examples
    --------
    >>> naive(np.array([0.0, 0.0]))
    array([0.5, 0.5])
    """
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def stable(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    """Subtract each row's maximum first, so that no exponential exceeds 1.

    Parameters
    ----------
    scores : ndarray
        Scores, any shape; -inf marks a hidden entry.
    axis : int, default -1
        The axis whose entries compete.

    Returns
    -------
    ndarray
        Weights of the same shape. A row with nothing but -inf gives zeros.

    Notes
    -----
    softmax(s) = softmax(s - c) for any c, and c = max(s) makes the largest term exp(0).

    Examples
    --------
    >>> stable(np.array([1000.0, 1000.0, -np.inf]))
    array([0.5, 0.5, 0. ])
    """
    exponentials = np.exp(scores - _finite_max(scores, axis))
    row_sum = exponentials.sum(axis=axis, keepdims=True)
    return exponentials / np.where(row_sum == 0, 1, row_sum)


def logsumexp(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    """Compute log(sum(exp(scores))) in nats without overflow.

    Parameters
    ----------
    scores : ndarray
        Scores, any shape; -inf marks a hidden entry.
    axis : int, default -1
        The axis to sum over; it disappears from the result.

    Returns
    -------
    ndarray
        The logarithm of the softmax's denominator; -inf where every score is -inf.

    Examples
    --------
    >>> bool(logsumexp(np.array([1000.0, 1000.0])) == 1000.0 + np.log(2.0))
    True
    """
    row_max = _finite_max(scores, axis)
    row_sum = np.exp(scores - row_max).sum(axis=axis, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.squeeze(np.log(row_sum) + row_max, axis=axis)


def fold(row_max: Any, row_sum: Any, score: Any) -> tuple[Any, Any]:
    """Fold one more score into a running maximum and a running sum.

    Parameters
    ----------
    row_max, row_sum : float or ndarray
        The largest score so far (-inf before any) and sum(exp(score - row_max)) (0 before any).
    score : float or ndarray
        The next score, of the same shape.

    Returns
    -------
    row_max, row_sum : float or ndarray
        The same two, now including `score`.

    Notes
    -----
    When the maximum grows, the old sum shrinks by exp(old - new) and stays right.
    **Source:** Milakov and Gimelshein 2018, Algorithm 3 (arXiv:1805.02867).
    """
    new_max = np.maximum(row_max, score)
    centre = np.where(np.isneginf(new_max), 0.0, new_max)
    return new_max, row_sum * np.exp(row_max - centre) + np.exp(score - centre)


def fold_block(
    row_max: Any,
    row_sum: Any,
    scores: Any,
) -> tuple[Any, Any, Any, Any]:
    """Fold a whole block of scores into a running maximum and a running sum.

    Parameters
    ----------
    row_max, row_sum : ndarray or Tensor, shape (..., l, 1)
        The largest score so far (-inf before any) and the sum of exp(score - row_max).
    scores : ndarray or Tensor, shape (..., l, s)
        The block, s >= 1; -inf where hidden. Its memory is used up.

    Returns
    -------
    row_max, row_sum : ndarray or Tensor, shape (..., l, 1)
        The same two, now including this block.
    weights : ndarray or Tensor, shape (..., l, s)
        exp(score - row_max), for this block, where its scores were.
    shrink : ndarray or Tensor, shape (..., l, 1)
        At most 1: what everything summed before must be multiplied by.

    Notes
    -----
    Any number may be subtracted from a row, so the maximum counts as a constant when
    gradients are taken. A row that has seen nothing yet subtracts 0.
    **Source:** Milakov and Gimelshein 2018, Algorithm 3 (arXiv:1805.02867).
    """
    library = library_of(scores)
    constants = scores if library is np else scores.detach()
    block_max = library.amax(constants, axis=-1, keepdims=True)
    new_max = library.maximum(row_max, block_max)
    centre = library.where(new_max == -np.inf, 0.0, new_max)  # (..., l, 1)
    scores -= centre
    # exp(x) = 2 ** (x · log2(e)), and powers of 2 are several times faster.
    scores *= _LOG2_E
    weights = np.exp2(scores, out=scores) if library is np else scores.exp2_()
    shrink = library.exp(row_max - centre)
    row_sum = row_sum * shrink + library.sum(weights, axis=-1, keepdims=True)
    return new_max, row_sum, weights, shrink


def close(row_max: Any, row_sum: Any, acc: Any) -> tuple[Any, Any]:
    """Divide by the sum, once all blocks are folded in.

    Parameters
    ----------
    row_max, row_sum : Tensor, shape (..., l, 1)
        As `fold_block` left them.
    acc : Tensor, shape (..., l, n)
        The values, summed by weight.

    Returns
    -------
    out : Tensor, shape (..., l, n)
        0 in rows that have seen nothing.
    lse : Tensor, shape (..., l)
        Log-sum-exp in nats; -inf in rows that have seen nothing.
    """
    row_sum = row_sum.masked_fill(row_sum == 0, 1.0)
    return acc / row_sum, (row_sum.log() + row_max).squeeze(-1)


def online(scores: np.ndarray) -> np.ndarray:
    """Find maximum and sum in one pass over the last axis, then return the weights.

    Parameters
    ----------
    scores : ndarray, shape (..., S)
        Scores; -inf marks a hidden entry.

    Returns
    -------
    ndarray, shape (..., S)
        The weights of `stable`. A row with nothing but -inf gives zeros.

    Notes
    -----
    Nothing but `fold` reads the scores before the division, so a kernel can take them block
    by block. **Source:** Milakov and Gimelshein 2018, section 3 (arXiv:1805.02867).
    """
    row_max = np.full(scores.shape[:-1], -np.inf)
    row_sum = np.zeros(scores.shape[:-1])
    for j in range(scores.shape[-1]):
        row_max, row_sum = fold(row_max, row_sum, scores[..., j])
    centre = np.where(np.isneginf(row_max), 0.0, row_max)[..., None]
    return np.exp(scores - centre) / np.where(row_sum == 0, 1, row_sum)[..., None]


def merge(out1: Any, lse1: Any, out2: Any, lse2: Any) -> tuple[Any, Any]:
    """Join the attention over two disjoint sets of keys into the attention over both.

    Parameters
    ----------
    out1, out2 : ndarray or Tensor, shape (..., L, Ev)
        Outputs of the same queries over the first and the second set of keys.
    lse1, lse2 : ndarray or Tensor, shape (..., L)
        Their log-sum-exp, in nats; -inf where no key was visible.

    Returns
    -------
    out : ndarray or Tensor, shape (..., L, Ev)
        The output over both sets; 0 where neither set shows a key.
    lse : ndarray or Tensor, shape (..., L)
        The log-sum-exp over both sets, in nats.

    Raises
    ------
    ValueError
        When the shapes of the two parts, or of an output and its lse, disagree.

    Notes
    -----
    Associative and commutative up to rounding; (anything finite, -inf) is its identity. Both
    factors are at most 1, so the two lse may lie arbitrarily far apart.
    **Source:** Dao et al. 2022, section 3.1 (arXiv:2205.14135).
    """
    if tuple(out1.shape) != tuple(out2.shape) or tuple(lse1.shape) != tuple(lse2.shape):
        raise ValueError(
            f"both parts must have the same shapes: out1 has {tuple(out1.shape)} and lse1 "
            f"{tuple(lse1.shape)}, out2 has {tuple(out2.shape)} and lse2 {tuple(lse2.shape)}"
        )
    if tuple(out1.shape[:-1]) != tuple(lse1.shape):
        raise ValueError(
            f"lse must have the shape of out without its last axis: out has "
            f"{tuple(out1.shape)}, lse has {tuple(lse1.shape)}"
        )
    library = library_of(lse1)
    centre = library.maximum(lse1, lse2)  # (..., L)
    centre = library.where(centre == -np.inf, library.zeros_like(centre), centre)
    # Both at most 1, shape (..., L).
    share1, share2 = library.exp(lse1 - centre), library.exp(lse2 - centre)
    total = share1 + share2
    nothing = total == 0  # neither set shows a key
    total = library.where(nothing, library.ones_like(total), total)
    lse = library.where(nothing, lse1, centre + library.log(total))
    out = out1 * (share1 / total)[..., None] + out2 * (share2 / total)[..., None]
    return out, lse


def _finite_max(scores: np.ndarray, axis: int) -> np.ndarray:
    """Return each row's maximum, kept as an axis, with 0 for a row of -inf or of nothing."""
    numbers = scores if np.issubdtype(scores.dtype, np.floating) else scores.astype(np.float64)
    row_max = numbers.max(axis=axis, keepdims=True, initial=-np.inf)
    return np.where(np.isneginf(row_max), 0, row_max).astype(numbers.dtype, copy=False)
