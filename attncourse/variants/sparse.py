"""Sparse attention: few pairs, chosen in blocks, computed by the ladder itself.

New here: a layout says which block of queries meets which blocks of keys. A window keeps
neighbours, a global block sees and is seen by all, random blocks are short cuts. The pairs
outside are neither computed nor stored. `hops` counts the layers until every position can
hear of every other.

Left out: layouts that depend on the content, dilated windows, and the separate projections
that some models give their global tokens.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attncourse import _validate
from attncourse.rungs import attention as ladder

__all__ = ["UNREACHED", "attention", "expand", "hops", "layout", "pairs"]

UNREACHED = -1


def layout(
    num_blocks: int,
    *,
    window: int = 1,
    num_global: int = 0,
    num_random: int = 0,
    is_causal: bool = False,
    seed: int = 0,
) -> np.ndarray:
    """Choose which blocks meet: a window, global blocks, random blocks.

    Parameters
    ----------
    num_blocks : int
        Blocks of the sequence.
    window : int, default 1
        Blocks that a block sees to its left, and to its right, beside itself.
    num_global : int, default 0
        The first so many blocks see every block and are seen by every block.
    num_random : int, default 0
        Further blocks for each block, drawn from those that it does not see yet; fewer where
        fewer are left.
    is_causal : bool, default False
        No block sees a later one.
    seed : int, default 0
        Decides the random blocks.

    Returns
    -------
    ndarray of bool, shape (num_blocks, num_blocks)
        True = the queries of this row's block attend to the keys of that column's.

    Notes
    -----
    **Source:** Zaheer et al. 2020, section 2 (arXiv:2007.14062), with the global blocks
    inside the sequence ("ITC").

    Examples
    --------
    >>> layout(5, window=1, num_global=1).astype(int)
    array([[1, 1, 1, 1, 1],
           [1, 1, 1, 0, 0],
           [1, 1, 1, 1, 0],
           [1, 0, 1, 1, 1],
           [1, 0, 0, 1, 1]])
    """
    counts = {"window": window, "num_global": num_global, "num_random": num_random}
    for name, count in ({"num_blocks": num_blocks} | counts).items():
        if _validate.whole(name, count) < 0:
            raise ValueError(f"{name} must not be negative, got {count}")
    _validate.options(is_causal=is_causal)
    i, j = np.indices((num_blocks, num_blocks))
    meets = (abs(i - j) <= window) | (np.minimum(i, j) < num_global)
    candidates = ~meets & (j <= i) if is_causal else ~meets
    rng = np.random.default_rng(seed)
    for row, free in enumerate(candidates):
        (others,) = np.nonzero(free)
        meets[row, rng.choice(others, min(num_random, len(others)), replace=False)] = True
    return meets & (j <= i) if is_causal else meets


def expand(
    meets: np.ndarray, block_size: int, seq_len: int, *, is_causal: bool = False
) -> np.ndarray:
    """Turn a layout into a mask of positions, for a picture or for any rung.

    Parameters
    ----------
    meets : ndarray of bool, shape (num_blocks, num_blocks)
        From `layout`.
    block_size, seq_len : int
        Positions in a block, and in the sequence; the last block may be shorter.
    is_causal : bool, default False
        Also hide later positions inside a block.

    Returns
    -------
    ndarray of bool, shape (seq_len, seq_len)
        True = attend.
    """
    _fits(meets, block_size, seq_len)
    _validate.options(is_causal=is_causal)
    of = np.arange(seq_len) // block_size
    allowed = meets[of[:, None], of]
    return np.tril(allowed) if is_causal else allowed


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    meets: np.ndarray,
    *,
    block_size: int,
    is_causal: bool = False,
    scale: float | None = None,
    rung: str = "auto",
) -> Tensor:
    """Attend within a layout; the result is that of the mask `expand` makes of it.

    Parameters
    ----------
    query, key, value : Tensor, shapes (..., H, n, E), (..., H, n, E), (..., H, n, Ev)
        At least three axes.
    meets : ndarray of bool, shape (num_blocks, num_blocks)
        From `layout`, or any other.
    block_size : int
        Positions in a block.
    is_causal, scale, rung
        As in `attncourse.attention`, which does the work.

    Returns
    -------
    Tensor, shape (..., H, n, Ev)
        0 in the rows of a block that meets none.

    Notes
    -----
    2·pairs·(E + Ev) FLOPs. The keys of a block's row are gathered side by side, and rows that
    meet equally many go to the ladder together, as one batch.
    """
    _check(query, key, value, meets, block_size)
    _validate.options(is_causal=is_causal, scale=scale)
    out = query.new_zeros(*query.shape[:-1], value.shape[-1])
    for rows, cols in _batches(meets, block_size, query):
        q = query[..., rows, :]  # (..., H, r, l, E)
        k, v = key[..., cols, :], value[..., cols, :]  # (..., H, r, s, E)
        past = cols.unsqueeze(-2) <= rows.unsqueeze(-1)  # (r, l, s)
        mask = past if is_causal else None
        some = ladder(q, k, v, attn_mask=mask, scale=scale, rung=rung)
        out = out.index_copy(-2, rows.flatten(), some.flatten(-3, -2))
    return out


def _batches(meets: np.ndarray, block_size: int, query: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Group the rows of blocks by their sizes.

    Each group is the positions of its queries (r, l), and those of their keys (r, s).
    """
    seq_len = query.shape[-2]
    positions = [
        np.arange(start, min(start + block_size, seq_len))
        for start in range(0, seq_len, block_size)
    ]
    groups: dict[tuple[int, int], list[tuple[np.ndarray, np.ndarray]]] = defaultdict(list)
    for rows, row in zip(positions, meets, strict=True):
        seen = [positions[j] for j in np.flatnonzero(row)]
        if seen:
            cols = np.concatenate(seen)
            groups[len(rows), len(cols)].append((rows, cols))
    stacked = (map(np.stack, zip(*group, strict=True)) for group in groups.values())
    there = query.device
    return [
        (torch.as_tensor(r, device=there), torch.as_tensor(s, device=there)) for r, s in stacked
    ]


def pairs(meets: np.ndarray, block_size: int, seq_len: int) -> int:
    """Count the scores that `attention` computes for one head, hidden ones included."""
    _fits(meets, block_size, seq_len)
    sizes = np.diff([*range(0, seq_len, block_size), seq_len])
    return int(sizes @ meets @ sizes)


def hops(allowed: Any) -> np.ndarray:
    """Count the layers until each position can depend on each other one.

    Parameters
    ----------
    allowed : array of bool, shape (n, n)
        True = attend, in every layer. Every position also keeps what it has: that is what
        residual connections are for.

    Returns
    -------
    ndarray of int, shape (n, n)
        Entry (i, j): the length of the shortest path by which position i hears of j. 0 on the
        diagonal, `UNREACHED` (-1) where no number of layers is enough.

    Examples
    --------
    >>> hops([[True, False, False], [True, True, False], [False, True, True]])
    array([[ 0, -1, -1],
           [ 1,  0, -1],
           [ 2,  1,  0]])
    """
    step = np.asarray(allowed)
    if step.dtype != bool or step.ndim != 2 or step.shape[0] != step.shape[1]:
        raise ValueError(f"wanted a boolean matrix (n, n), got {step.dtype} {step.shape}")
    reached = np.eye(len(step), dtype=bool)
    found = np.where(reached, 0, UNREACHED)
    links = (step | reached).astype(np.float32)  # floats: BLAS multiplies them fast
    for number in range(1, len(step)):
        further = links @ reached.astype(np.float32) > 0
        if (further == reached).all():
            break
        found[further & ~reached] = number
        reached = further
    return found


def _check(query: Tensor, key: Tensor, value: Tensor, meets: np.ndarray, block_size: int) -> None:
    """Check that the tensors are self-attention's, and that the layout fits them."""
    if _validate.library_of(query, key, value) is not torch:
        raise TypeError("sparse attention takes torch tensors, got arrays; use torch.from_numpy")
    if query.ndim < 3 or query.shape[-2] != key.shape[-2]:
        raise ValueError(
            f"wanted query and key of one length, (..., H, n, E); got shapes "
            f"{tuple(query.shape)} and {tuple(key.shape)}"
        )
    _validate.dtypes(query, key, value)
    _validate.shapes(query, key, value, False)
    _fits(meets, block_size, query.shape[-2])


def _fits(meets: np.ndarray, block_size: int, seq_len: int) -> None:
    """Check that a layout is one, and that it has a row for each block."""
    if _validate.whole("block_size", block_size) < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}")
    if not isinstance(meets, np.ndarray):
        raise TypeError(f"a layout must be a NumPy array, got {type(meets).__name__}")
    wanted = -(-_validate.whole("seq_len", seq_len) // block_size)
    if meets.dtype != bool or meets.shape != (wanted, wanted):
        raise ValueError(
            f"{seq_len} positions in blocks of {block_size} need a boolean layout "
            f"({wanted}, {wanted}), got {meets.dtype} {meets.shape}"
        )
