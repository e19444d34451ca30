"""Count the bytes that attention moves between slow and fast memory, by moving them.

New here: `SlowMemory` holds the big arrays and counts every load and store. Three NumPy
twins of the ladder's rungs work only on what they have loaded, as a kernel must: the
whole matrix, a strip at a time, a tile at a time. What they count is what
`attncourse.measure.cost.bytes_moved` predicts.

Left out: caches that catch a second read, batches, and every mask but causal and window.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attncourse import softmax, tiles
from attncourse.call import Call

__all__ = ["TWINS", "Move", "SlowMemory", "materialised", "strips", "tiled"]


class Move(NamedTuple):
    """One load or store: which array, which of its rows, and how many bytes."""

    kind: str
    name: str
    rows: slice
    nbytes: int


class SlowMemory:
    """Arrays that can only be reached by counted loads and stores.

    Parameters
    ----------
    **arrays : ndarray
        What lies in memory at the start, under its names.

    Attributes
    ----------
    moves : list of Move
        Every "load" and "store" so far, in order.
    """

    def __init__(self, **arrays: np.ndarray) -> None:
        self._arrays = dict(arrays)
        self.moves: list[Move] = []

    def reserve(self, name: str, *shape: int, dtype: Any = np.float64) -> None:
        """Make room for a result; nothing moves yet."""
        self._arrays[name] = np.full(shape, np.nan, dtype)

    def look(self, name: str) -> np.ndarray:
        """Look at an array from outside, uncounted."""
        return self._arrays[name]

    def load(self, name: str, rows: slice) -> np.ndarray:
        """Bring rows of an array into fast memory."""
        block = self._arrays[name][rows].copy()
        self.moves.append(Move("load", name, rows, block.nbytes))
        return block

    def store(self, name: str, rows: slice, block: np.ndarray) -> None:
        """Write rows of an array back."""
        self._arrays[name][rows] = block
        self.moves.append(Move("store", name, rows, self._arrays[name][rows].nbytes))

    @property
    def loaded(self) -> int:
        """Bytes brought into fast memory so far."""
        return sum(move.nbytes for move in self.moves if move.kind == "load")

    @property
    def stored(self) -> int:
        """Bytes written back so far."""
        return sum(move.nbytes for move in self.moves if move.kind == "store")

    @property
    def moved(self) -> int:
        """Bytes in both directions."""
        return self.loaded + self.stored


def materialised(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, **limits: Any
) -> tuple[np.ndarray, SlowMemory]:
    """Attend with the whole (L, S) matrix: written, read, written and read again.

    Parameters
    ----------
    query, key, value : ndarray, shapes (L, E), (S, E), (S, Ev)
        One head.
    **limits
        `is_causal`, `causal_align` and `window_size`, as in `attncourse.attention`; and
        `block_q`, `block_kv`, which only the other two twins use.

    Returns
    -------
    out : ndarray, shape (L, Ev)
        The output, as it stands in memory at the end.
    memory : SlowMemory
        With its counts.
    """
    head = _Head(query, key, value, **limits)
    memory, rows, cols = head.memory, slice(0, len(query)), slice(0, len(key))
    for name in ("scores", "weights"):
        memory.reserve(name, len(query), len(key), dtype=query.dtype)
    memory.store("scores", rows, memory.load("q", rows) @ memory.load("k", cols).T)
    scores = head.call.finish(head.call.scale * memory.load("scores", rows))
    memory.store("weights", rows, softmax.stable(scores))
    memory.store("out", rows, memory.load("weights", rows) @ memory.load("v", cols))
    return memory.look("out"), memory


def strips(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, **limits: Any
) -> tuple[np.ndarray, SlowMemory]:
    """Attend a strip of `block_q` queries at a time; its scores stay in fast memory.

    Parameters and results are those of `materialised`.
    """
    head = _Head(query, key, value, **limits)
    for rows in tiles.blocks(0, len(query), head.block_q):
        q, out = head.memory.load("q", rows), np.zeros((1, value.shape[-1]))
        for part in head.call.key_blocks(rows, max(len(key), 1)):
            scores = head.call.scale * (q @ head.memory.load("k", part.cols).T)  # (l, s)
            scores = part.finish(scores)
            out = softmax.stable(scores) @ head.memory.load("v", part.cols)  # (l, Ev)
        head.memory.store("out", rows, np.broadcast_to(out, (len(q), value.shape[-1])))
    return head.memory.look("out"), head.memory


def tiled(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, **limits: Any
) -> tuple[np.ndarray, SlowMemory]:
    """Attend a tile of `block_q` queries and `block_kv` keys at a time; store the lse too.

    Parameters and results are those of `materialised`. The loop is that of rung `tiled`.
    """
    head = _Head(query, key, value, **limits)
    memory = head.memory
    memory.reserve("lse", len(query), 1, dtype=query.dtype)
    for rows in tiles.blocks(0, len(query), head.block_q):
        q = memory.load("q", rows)  # (l, E)
        row_sum = np.zeros((len(q), 1), q.dtype)  # (l, 1)
        row_max = np.full_like(row_sum, -np.inf)
        acc = np.zeros((len(q), value.shape[-1]), q.dtype)  # (l, Ev)
        for tile in head.call.key_blocks(rows, head.block_kv):
            k, v = memory.load("k", tile.cols), memory.load("v", tile.cols)
            scores = tile.finish(head.call.scale * (q @ k.T))  # (l, s)
            folded = softmax.fold_block(row_max, row_sum, scores)
            row_max, row_sum, weights, shrink = folded
            acc = acc * shrink + weights @ v
        with np.errstate(divide="ignore"):
            memory.store("lse", rows, np.log(row_sum) + row_max)
        memory.store("out", rows, acc / np.where(row_sum == 0, 1, row_sum))
    return memory.look("out"), memory


TWINS = {"materialised": materialised, "strips": strips, "tiled": tiled}


class _Head:
    """One head of attention in slow memory, and what limits its view."""

    def __init__(
        self,
        query: np.ndarray,
        key: np.ndarray,
        value: np.ndarray,
        is_causal: bool = False,
        causal_align: str = "top_left",
        window_size: int | None = None,
        block_q: int = 128,
        block_kv: int = 512,
    ) -> None:
        self.memory = SlowMemory(q=query, k=key, v=value)
        self.memory.reserve("out", len(query), value.shape[-1], dtype=query.dtype)
        self.call = Call.of(
            *(query, key, value),
            is_causal=is_causal,
            causal_align=causal_align,
            window_size=window_size,
        )
        self.block_q, self.block_kv = block_q, block_kv
