"""What attention costs, predicted: FLOPs, bytes moved, scores held at once.

New here: nothing runs. The formulas say what doubling the length, the width or a block
does; `attncourse.measure.traffic` counts the bytes of a real run, `attncourse.measure.peak_memory`
measures a rung's memory, and the tests hold the formulas to both.

Left out: time. A machine needs at least FLOPs / (its FLOPs a second) and bytes / (its
bytes a second), and in practice longer.
"""

from __future__ import annotations

from dataclasses import dataclass

from attncourse import _validate, masks, tiles
from attncourse.rungs import LADDER

__all__ = ["MATERIALISED", "Problem", "bytes_moved", "flops", "keys_read", "scores_held"]

MATERIALISED = frozenset(rung.name for rung in LADDER if rung.cost == "materialised")


@dataclass(frozen=True)
class Problem:
    """The size of one call of `attncourse.attention`.

    Attributes
    ----------
    seq_len_q, seq_len_kv : int
        L and S.
    head_dim, value_dim : int
        E and Ev.
    num_heads, batch_size : int
        H and B.
    is_causal, causal_align, window_size
        As in `attncourse.attention`.
    itemsize : int
        Bytes of a number: 4 for float32, 2 for float16 and bfloat16.
    """

    seq_len_q: int
    seq_len_kv: int
    head_dim: int = 64
    value_dim: int = 64
    num_heads: int = 1
    batch_size: int = 1
    is_causal: bool = False
    causal_align: str = "top_left"
    window_size: int | None = None
    itemsize: int = 4

    def __post_init__(self) -> None:
        """Check the options as a call would."""
        _validate.options(
            is_causal=self.is_causal,
            causal_align=self.causal_align,
            window_size=self.window_size,
        )

    @property
    def heads(self) -> int:
        """All heads of all sequences, B·H."""
        return self.batch_size * self.num_heads

    @property
    def shift(self) -> int:
        """Where query 0 stands among the keys."""
        return masks.offset(self.seq_len_q, self.seq_len_kv, self.causal_align)


def flops(problem: Problem, rung: str, *, backward: bool = False, block_q: int = 128) -> int:
    """Count the floating-point operations of the matrix products.

    Parameters
    ----------
    problem : Problem
        The call.
    rung : str
        A name from the ladder.
    backward : bool, default False
        Count the backward pass instead of the forward pass.
    block_q : int, default 128
        Queries in a strip or tile, for the rungs that have those. A round number: what a rung
        takes by itself stands in its own documentation.

    Returns
    -------
    int
        A multiplication and an addition count as two. The softmax is left out: it takes a
        few operations a score where the products take 2·(E + Ev).

    Notes
    -----
    Scores that the rung never computes are not counted, hidden scores that it computes are.
    A backward pass has four products (for the gradients of weights, values, queries and
    keys), and a fifth on rungs that make the scores again.
    """
    pairs = _pairs(problem, _kind(rung), block_q)
    to_width, to_value_width = (1, 1) if not backward else (2, 2)
    if backward and any(each.recomputes for each in LADDER if each.name == rung):
        to_width += 1
    widths = to_width * problem.head_dim + to_value_width * problem.value_dim
    return 2 * problem.heads * pairs * widths


def _pairs(problem: Problem, kind: str, block_q: int) -> int:
    """Count the scores of one head that are computed, hidden or not."""
    if kind == "materialised" or not problem.is_causal:
        return problem.seq_len_q * problem.seq_len_kv
    pairs = 0
    for rows in tiles.blocks(0, problem.seq_len_q, block_q):
        cols = tiles.span(rows, problem.seq_len_kv, problem.shift, problem.window_size)
        pairs += (rows.stop - rows.start) * (cols.stop - cols.start)
    return pairs


def bytes_moved(problem: Problem, rung: str, *, block_q: int = 128) -> float:
    """Predict the bytes that a forward pass moves between slow and fast memory.

    Parameters
    ----------
    problem, rung, block_q
        As in `flops`.

    Returns
    -------
    float
        Loads and stores of all heads, where nothing is cached beyond a tile.

    Notes
    -----
    All rungs read q once and write out once. A materialised rung also reads k and v once,
    writes the L·S scores, reads them for the softmax, writes the weights and reads them:
    4·L·S numbers. A tiled rung moves none of these, but reads k and v again for every block
    of queries, and writes the lse.
    **Source:** Dao et al. 2022, Theorem 2 (arXiv:2205.14135).
    """
    kind = _kind(rung)
    seq_len_q, seq_len_kv = problem.seq_len_q, problem.seq_len_kv
    numbers = seq_len_q * (problem.head_dim + problem.value_dim)
    widths = problem.head_dim + problem.value_dim
    if kind == "materialised":
        numbers += seq_len_kv * widths + 4 * seq_len_q * seq_len_kv
        return float(problem.heads * problem.itemsize * numbers)
    total = numbers + keys_read(problem, block_q) * widths + (seq_len_q if kind == "tiled" else 0)
    return problem.heads * problem.itemsize * total


def keys_read(problem: Problem, block_q: int) -> float:
    """Predict how many keys of one head are read, all blocks of queries together.

    Returns
    -------
    float
        (visible area) / `block_q`, plus half of the keys at the two slanted edges: a block
        reads all the keys that any of its queries sees. Without a mask, S for each block;
        under a causal mask with L = S = n, n·(n / block_q + 1) / 2. Exact where the edges
        bend at the borders of blocks; else each bend adds at most `block_q` / 8 keys.
    """
    num_blocks = -(-problem.seq_len_q // block_q)
    if not problem.is_causal:
        return float(num_blocks * problem.seq_len_kv)
    rows, until = num_blocks * block_q, problem.seq_len_kv
    ends = _Edge(problem.shift, until)
    area, step = ends.area(rows), ends.at(rows) - ends.at(0)
    if problem.window_size is not None:
        starts = _Edge(problem.shift - problem.window_size + 1, until)
        area, step = area - starts.area(rows), step + starts.at(rows) - starts.at(0)
    beyond = ends.at(rows) - ends.at(problem.seq_len_q)  # the last block may be short
    return area / block_q + step / 2 - beyond


@dataclass(frozen=True)
class _Edge:
    """A slanted edge of the visible area: min(max(i + shift, 0), until) keys left of it."""

    shift: int
    until: int

    def at(self, i: int) -> float:
        return float(min(max(i + self.shift, 0), self.until))

    def area(self, rows: int) -> float:
        """Integrate the edge from row 0 to `rows`."""
        return sum(
            sign * max(x, 0) ** 2 / 2
            for sign, x in (
                (1, rows + self.shift),
                (-1, self.shift),
                (-1, rows + self.shift - self.until),
                (1, self.shift - self.until),
            )
        )


def scores_held(problem: Problem, rung: str, *, block_q: int = 128, block_kv: int = 512) -> int:
    """Tell how many scores of one head must stand in memory at the same time.

    Parameters
    ----------
    problem, rung, block_q
        As in `flops`.
    block_kv : int, default 512
        Keys in a tile.

    Returns
    -------
    int
        L·S where the matrix is materialised, `block_q`·S in a strip (less under a window),
        `block_q`·`block_kv` in a tile.
    """
    kind, rows = _kind(rung), min(block_q, problem.seq_len_q)
    if kind == "materialised":
        return problem.seq_len_q * problem.seq_len_kv
    width = problem.seq_len_kv
    if problem.window_size is not None:
        width = min(width, rows + problem.window_size - 1)
    return rows * (min(width, block_kv) if kind == "tiled" else width)


def _kind(rung: str) -> str:
    kinds = {each.name: each.cost for each in LADDER}
    if rung in kinds.values():
        return rung
    if rung not in kinds:
        raise ValueError(f"no cost is known for rung {rung!r}; there is one for {sorted(kinds)}")
    return kinds[rung]
