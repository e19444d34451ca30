"""Dropout whose mask depends on nothing but its coordinates.

New here: no state is kept between draws. The number for (batch, head, query, key) is a
function of the seed and of these four coordinates, so NumPy, torch and a GPU kernel draw
the same mask, whatever the order or the tiles in which they visit the scores, and a
backward pass draws it again instead of storing it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attncourse._validate import library_of

__all__ = ["keep", "philox"]

_LOW = 0xFFFFFFFF
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85


def philox(counter: tuple[Any, Any, Any, Any], seed: int) -> tuple[Any, Any, Any, Any]:
    """Scramble a 128-bit counter with a 64-bit seed into four 32-bit random words.

    Parameters
    ----------
    counter : four int64 arrays or tensors, broadcastable
        The words c0 … c3, each from 0 to 2**32 - 1.
    seed : int
        From 0 to 2**64 - 1.

    Returns
    -------
    four int64 arrays or tensors
        Words from 0 to 2**32 - 1.

    Notes
    -----
    Philox4x32 with ten rounds, as in cuRAND and `triton.language.philox`. The products wrap
    modulo 2**64; shifted and masked, their two halves are right all the same.
    **Source:** Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.
    """
    c0, c1, c2, c3 = counter
    seed = int(seed)
    key0, key1 = seed & _LOW, (seed >> 32) & _LOW
    for _ in range(10):
        product0, product1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        high0, high1 = (product0 >> 32) & _LOW, (product1 >> 32) & _LOW
        c0, c1 = high1 ^ c1 ^ key0, product1 & _LOW
        c2, c3 = high0 ^ c3 ^ key1, product0 & _LOW
        key0, key1 = (key0 + _KEY_STEPS[0]) & _LOW, (key1 + _KEY_STEPS[1]) & _LOW
    return c0, c1, c2, c3


def keep(
    like: Any,
    dropout_p: float,
    seed: int,
    rows: slice | None = None,
    cols: slice | None = None,
    heads: slice | None = None,
) -> Any:
    """Draw which weights of a block survive, True = kept.

    Parameters
    ----------
    like : ndarray or Tensor, shape (..., H, l, s)
        The block of weights: its shape, library and device are used. All axes before the
        heads are counted as one batch; without a head axis, batch and head are 0.
    dropout_p : float
        Probability of being dropped, 0 <= p < 1.
    seed : int
        From 0 to 2**64 - 1.
    rows, cols : slice, optional
        Where the block lies among all queries and keys; at the start by default.
    heads : slice, optional
        Which heads these are; all of them by default.

    Returns
    -------
    ndarray or Tensor of bool, shape (..., H, l, s)
        The same bits for the same coordinates in every library and tiling.
    """
    shape = tuple(like.shape)
    row0, col0 = (rows.start if rows else 0), (cols.start if cols else 0)
    num_heads = shape[-3] if len(shape) > 2 else 1
    batch = math.prod(shape[:-3])
    counter = (
        _count(like, col0, shape[-1]),
        _count(like, row0, shape[-2])[:, None],
        _count(like, heads.start if heads else 0, num_heads)[:, None, None],
        _count(like, 0, batch)[:, None, None, None],
    )
    word = philox(counter, seed)[0]  # (batch, H, l, s)
    return (word >= round(dropout_p * 2**32)).reshape(shape)


def _count(like: Any, start: int, size: int) -> Any:
    """Return start, start + 1, … as int64 where `like` lives."""
    library = library_of(like)
    where = {} if library is np else {"device": like.device}
    return library.arange(start, start + size, dtype=library.int64, **where)
