"""Which tokens of a sequence, or which heads, each device has.

New here: the order. *Plain* cuts a sequence into one piece a rank. *Zig-zag* cuts twice as many
and gives each rank one piece from the front and its mirror image from the back: under a causal
mask, where late queries see many keys and early ones few, every rank then has equal work.

Left out: sending anything; this is arithmetic on positions, and needs NumPy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    "SCHEDULES",
    "check_schedule",
    "heads_of",
    "lengths",
    "meetings",
    "runs",
    "shard",
    "unshard",
    "visible_pairs",
]

SCHEDULES = ("plain", "zigzag")


def runs(seq_len: int, rank: int, world_size: int, schedule: str = "zigzag") -> list[slice]:
    """Tell which stretches of a sequence a rank holds, in the order in which it holds them.

    Parameters
    ----------
    seq_len : int
        Tokens of the whole sequence; any number, also one that does not divide.
    rank, world_size : int
        Which rank of how many.
    schedule : {"plain", "zigzag"}
        How the sequence is dealt out.

    Returns
    -------
    list of slice
        One stretch (plain) or two (zig-zag), possibly empty. The ranks' lengths differ by at
        most 1, and two stretches of any two ranks are equal or have no token in common.

    Raises
    ------
    ValueError
        When the schedule is unknown, or a number is out of range.

    Examples
    --------
    >>> runs(8, 0, 2, "plain")
    [slice(0, 4, None)]
    >>> runs(8, 0, 2, "zigzag")
    [slice(0, 2, None), slice(6, 8, None)]

    Notes
    -----
    **Source:** the zig-zag order is that of Megatron-style context parallelism, described in
    issue 2 of zhuzilin/ring-flash-attention.
    """
    check_schedule(schedule)
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must lie in 0 … {world_size - 1}, got {rank}")
    if seq_len < 0:
        raise ValueError(f"seq_len must be at least 0, got {seq_len}")
    if schedule == "plain":
        return [_piece(seq_len, rank, world_size)]
    pieces = 2 * world_size
    return [_piece(seq_len, number, pieces) for number in (rank, pieces - 1 - rank)]


def check_schedule(schedule: str) -> None:
    """Check that an order is one of `SCHEDULES`."""
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule must be one of {SCHEDULES}, got {schedule!r}")


def _piece(seq_len: int, number: int, pieces: int) -> slice:
    """Cut the sequence into near-equal pieces, the longer ones first, and return one."""
    size, longer = divmod(seq_len, pieces)
    start = number * size + min(number, longer)
    return slice(start, start + size + (number < longer))


def lengths(seq_len: int, world_size: int, schedule: str = "zigzag") -> list[int]:
    """Tell how many tokens each rank holds.

    Examples
    --------
    >>> lengths(7, 2, "zigzag")
    [3, 4]
    """
    return [
        sum(run.stop - run.start for run in runs(seq_len, rank, world_size, schedule))
        for rank in range(world_size)
    ]


def heads_of(num_heads: int, num_kv_heads: int, rank: int, world_size: int) -> tuple[slice, slice]:
    """Tell which query heads a rank works on, and which key heads it needs for them.

    Raises
    ------
    ValueError
        When there are more ranks than query heads: some rank would have nothing to do.

    Examples
    --------
    >>> [heads_of(6, 2, rank, 4) for rank in (0, 1)]
    [(slice(0, 2, None), slice(0, 1, None)), (slice(2, 4, None), slice(0, 2, None))]
    """
    if world_size > num_heads:
        raise ValueError(
            f"Ulysses gives every rank at least one head, but there are {world_size} ranks and "
            f"{num_heads} query heads; ring attention has no such limit"
        )
    size, larger = divmod(num_heads, world_size)
    start = rank * size + min(rank, larger)
    heads = slice(start, start + size + (rank < larger))
    group_size = num_heads // num_kv_heads
    return heads, slice(heads.start // group_size, -(-heads.stop // group_size))


def shard(
    array: Any, rank: int, world_size: int, schedule: str = "zigzag", *, axis: int = -2
) -> Any:
    """Cut a rank's tokens out of a whole array.

    Parameters
    ----------
    array : ndarray or Tensor
        Any array with one axis for the tokens.
    rank, world_size, schedule
        As in `runs`.
    axis : int, default -2
        The axis of the tokens.

    Returns
    -------
    ndarray or Tensor
        A copy that holds the rank's tokens only.
    """
    axis %= array.ndim
    where = runs(array.shape[axis], rank, world_size, schedule)
    places = np.concatenate([np.arange(run.start, run.stop) for run in where])
    return array[(slice(None),) * axis + (places,)]


def unshard(parts: Sequence[Any], schedule: str = "zigzag", *, axis: int = -2) -> np.ndarray:
    """Put the ranks' parts together again: the inverse of `shard`.

    Parameters
    ----------
    parts : sequence of array_like
        One part a rank, in the order of the ranks.
    schedule, axis
        As in `shard`.

    Returns
    -------
    ndarray
        The whole, in the order of the sequence.
    """
    arrays = [np.asarray(part) for part in parts]
    axis %= arrays[0].ndim
    seq_len = sum(part.shape[axis] for part in arrays)
    order = np.concatenate(
        [shard(np.arange(seq_len), r, len(parts), schedule, axis=0) for r in range(len(parts))]
    )
    return np.take(np.concatenate(arrays, axis=axis), np.argsort(order), axis=axis)


def meetings(
    queries: Sequence[slice], keys: Sequence[slice], *, is_causal: bool
) -> list[tuple[slice, slice, bool]]:
    """List which local rows of a rank meet which local columns of a visitor.

    Parameters
    ----------
    queries, keys : sequence of slice
        The stretches of two ranks, from `runs`.
    is_causal : bool
        Whether later keys are hidden.

    Returns
    -------
    list of (slice, slice, bool)
        Rows, columns, and whether the block is the causal triangle on the diagonal. Any other
        block is seen whole, and what nobody may see is not listed: so no block needs a mask.

    Examples
    --------
    >>> meetings(runs(8, 0, 2), runs(8, 1, 2), is_causal=True)
    [(slice(2, 4, None), slice(0, 2, None), False), (slice(2, 4, None), slice(2, 4, None), False)]
    """
    blocks = []
    for query, rows in zip(queries, _local(queries), strict=True):
        for key, cols in zip(keys, _local(keys), strict=True):
            if is_causal and key.start > query.start:
                continue
            if rows.stop > rows.start and cols.stop > cols.start:
                blocks.append((rows, cols, is_causal and key == query))
    return blocks


def _local(stretches: Sequence[slice]) -> list[slice]:
    """Tell where each stretch lies inside the rank's own array."""
    local, start = [], 0
    for run in stretches:
        stop = start + run.stop - run.start
        local.append(slice(start, stop))
        start = stop
    return local


def visible_pairs(queries: Sequence[slice], keys: Sequence[slice], *, is_causal: bool) -> int:
    """Count the pairs of a query and a key that a rank must work on when it meets a visitor.

    Examples
    --------
    >>> visible_pairs(runs(8, 1, 2, "plain"), runs(8, 0, 2, "plain"), is_causal=True)
    16
    """
    pairs = 0
    for rows, cols, triangle in meetings(queries, keys, is_causal=is_causal):
        height, width = rows.stop - rows.start, cols.stop - cols.start
        pairs += height * (height + 1) // 2 if triangle else height * width
    return pairs
