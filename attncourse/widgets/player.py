"""The tile player: step through attention, one load at a time, and see what fast memory holds.

The one idea: nothing is invented for the picture. `attncourse.measure.traffic.tiled` really runs,
its counter remembers every load and store, and the figure plays that record. `player.js` folds the
blocks of one query's scores as `attncourse.softmax.fold_block` does, so that the reader may
multiply the scores or take the running maximum away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import anywidget
import numpy as np
import traitlets

from attncourse.call import Call
from attncourse.measure import traffic
from attncourse.widgets._front import labels_from, read

__all__ = ["LABELS", "TilePlayer", "record"]

LABELS = {
    "figure": "Tile player",
    "masks": "Choose the mask",
    "plain": "no mask",
    "causal": "causal",
    "window": "window of {window}",
    "back": "◂ Back",
    "next": "Step ▸",
    "play": "Play",
    "pause": "Pause",
    "step": "Step",
    "of": "{step} of {steps}",
    "picture": "Queries down, keys across: the tile being read, those done, and those never read",
    "legend": "Thick frame: read now. Grey: done. Hatched: never read. Dots: computed, hidden.",
    "queries": "Queries {first} to {last} are read.",
    "queries_one": "Query {first} is read.",
    "fold": "Keys and values {first} to {last} are read.",
    "fold_one": "Key and value {first} are read.",
    "store": "Outputs and lse of queries {first} to {last} are written.",
    "store_one": "Output and lse of query {first} are written.",
    "empty": "Query {query} has met no key: its maximum is −∞, its sum 0.",
    "first": "Query {query} meets its first scores: there is nothing old to shrink.",
    "grown": "Query {query} finds a larger score: what it had summed shrinks, × {shrink}.",
    "kept": "Query {query} finds no larger score: what it had summed stays as it is.",
    "unseen": "All of them are hidden from query {query}: it adds nothing.",
    "unchecked": "Query {query} adds up its exponentials as they are.",
    "divided": "Query {query} has met all its keys: it divides by its sum, once.",
    "blind": "Query {query} was shown no key: its output is 0, its lse −∞.",
    "broken": "Query {query} is lost: its sum is {sum}, and no division can mend that.",
    "watch": "Watch in each block",
    "watched": "query {query}",
    "gain": "Scores multiplied by",
    "subtract": "Subtract the running maximum",
    "row": "Query {query}",
    "before": "before",
    "after": "after",
    "row_max": "largest score",
    "row_sum": "sum",
    "acc": "unfinished output",
    "lse": "lse",
    "out": "output",
    "held": "Scores in fast memory",
    "held_of": "{held} of {all}",
    "moved": "Bytes moved so far",
    "whole": "Whole matrix, in the end",
}


def record(memory: traffic.SlowMemory) -> list[dict[str, Any]]:
    """Join the moves of a tiled run to the steps that a reader follows.

    Parameters
    ----------
    memory : attncourse.measure.traffic.SlowMemory
        As `attncourse.measure.traffic.tiled` returns it.

    Returns
    -------
    list of dict
        kind ("queries", "fold" or "store"), rows and cols ([first, stop]; no cols but in a fold),
        and the bytes loaded and stored in the step.
    """
    steps: list[dict[str, Any]] = []
    rows: list[int] = []
    for kind, name, part, nbytes in memory.moves:
        where = [part.start, part.stop]
        if name == "q":
            steps.append({"kind": "queries", "rows": where, "cols": [], "loaded": 0, "stored": 0})
            rows = where
        elif name == "k":
            steps.append({"kind": "fold", "rows": rows, "cols": where, "loaded": 0, "stored": 0})
        elif name == "lse":
            steps.append({"kind": "store", "rows": rows, "cols": [], "loaded": 0, "stored": 0})
        steps[-1]["loaded" if kind == "load" else "stored"] += nbytes
    return steps


class TilePlayer(anywidget.AnyWidget):
    """Play a tiled run of attention, step by step.

    Parameters
    ----------
    query, key, value : array_like, shapes (L, E), (S, E), (S, Ev)
        One head, finite; their dtype decides the bytes.
    block_q, block_kv : int
        Queries and keys in a tile.
    window_size : int, optional
        Adds a third mask: causal, the own key and so many before it, less one.
    causal_align : {"top_left", "bottom_right"}
        As in `attncourse.attention`.
    mask : {"plain", "causal", "window"}
        Which mask is shown first.
    watch : int, optional
        Which query of each block the table shows; the last by default.
    labels : mapping of str to str, optional
        Texts in place of those of `LABELS`, for another language.

    Notes
    -----
    The state holds numbers and text only; a hidden score is null. Meant for some twenty
    queries and keys, so that a square is large enough to be seen.
    """

    _esm = read("parts.js", "player.js")
    _css = read("parts.css", "player.css")

    runs: traitlets.List = traitlets.List().tag(sync=True)
    value: traitlets.List = traitlets.List().tag(sync=True)
    block_q = traitlets.Int(1).tag(sync=True)
    run_index = traitlets.Int(0).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    watch = traitlets.Int(0).tag(sync=True)
    gain = traitlets.Float(1.0).tag(sync=True)
    subtract = traitlets.Bool(True).tag(sync=True)
    labels: traitlets.Dict = traitlets.Dict(LABELS).tag(sync=True)
    static_height = traitlets.Int(0).tag(sync=True)  # room that a saved page keeps, in pixels

    def __init__(
        self,
        query: Any,
        key: Any,
        value: Any,
        *,
        block_q: int,
        block_kv: int,
        window_size: int | None = None,
        causal_align: str = "top_left",
        mask: str = "plain",
        watch: int | None = None,
        labels: Mapping[str, str] | None = None,
        **layout: Any,
    ) -> None:
        q, k, v = map(np.asarray, (query, key, value))
        _check(q, k, v)
        for name, size in (("block_q", block_q), ("block_kv", block_kv)):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        blocks: dict[str, Any] = {"block_q": block_q, "block_kv": block_kv}
        blocks["causal_align"] = causal_align
        runs = list(_runs(q, k, v, window_size, blocks))
        names = [run["mask"] for run in runs]
        if mask not in names:
            raise ValueError(f"mask must be one of {names}, got {mask!r}")
        watch = block_q - 1 if watch is None else watch
        if not 0 <= watch < block_q:
            raise ValueError(f"watch must lie in 0 ... {block_q - 1}, got {watch}")
        super().__init__(
            runs=runs,
            value=v.astype(float).tolist(),
            block_q=block_q,
            run_index=names.index(mask),
            watch=watch,
            labels=labels_from(LABELS, labels),
            static_height=_HEIGHT,
            **layout,
        )


_HEIGHT = 606


def _runs(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, window_size: int | None, blocks: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Run the tiled twin once for each mask, and keep what its counter saw."""
    kinds: dict[str, dict[str, Any]] = {"plain": {}, "causal": {"is_causal": True}}
    if window_size is not None:
        kinds["window"] = {"is_causal": True, "window_size": window_size}
    for mask, limits in kinds.items():
        _, tiled = traffic.tiled(q, k, v, **limits, **blocks)
        _, whole = traffic.materialised(q, k, v, **limits, **blocks)
        yield {
            "mask": mask,
            "window": window_size,
            "scores": _scores(q, k, blocks["causal_align"], limits),
            "steps": record(tiled),
            "whole": whole.moved,
        }


def _scores(
    q: np.ndarray, k: np.ndarray, causal_align: str, limits: dict[str, Any]
) -> list[list[float | None]]:
    """Return the finished scores, with None where -inf hides one."""
    q, k = q.astype(np.float64), k.astype(np.float64)
    call = Call.of(q, k, k, causal_align=causal_align, **limits)
    finished = call.finish(call.scale * (q @ k.T))
    return [[None if np.isneginf(score) else float(score) for score in row] for row in finished]


def _check(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> None:
    """Refuse arrays that are not one head, or cannot be saved as JSON."""
    for name, array in (("query", q), ("key", k), ("value", v)):
        if array.ndim != 2 or not array.size:
            raise ValueError(f"{name} must be one head, shape (rows, width), got {array.shape}")
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ValueError(f"{name} must hold finite floating-point numbers")
    if q.shape[1] != k.shape[1] or len(k) != len(v):
        raise ValueError(
            f"query {q.shape}, key {k.shape} and value {v.shape} do not belong together"
        )
