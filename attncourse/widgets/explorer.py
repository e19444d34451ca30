"""The attention explorer: who attends to whom, and how sharply.

The one idea: the dot products are fixed, what multiplies them is the reader's choice, and
`explorer.js` turns them into weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anywidget
import numpy as np
import traitlets

from attncourse.widgets._front import labels_from, read

__all__ = ["LABELS", "AttentionExplorer"]

LABELS = {
    "figure": "Attention explorer",
    "choose": "Choose the token that asks",
    "sharpness": "Scores multiplied by",
    "width": "Width of query and key",
    "divide": "Divide the scores by √E",
    "asks": "“{token}” asks",
    "query": "query",
    "key": "key",
    "score": "score",
    "weight": "weight",
    "all": "All weights, keys across",
    "table": "Table of all weights",
    "spread": "Spread of all scores",
    "gradient": "Gradient through this row (0.5 at most)",
    "spoken": "“{token}” gives its largest weight, {weight}, to “{key}”.",
}


class AttentionExplorer(anywidget.AnyWidget):
    """Show who attends to whom, and let the reader change how sharply.

    Parameters
    ----------
    tokens : sequence of str, length L
        The words of the sequence, each both a query and a key.
    query, key : array_like, shape (L, E)
        Finite vectors; their dot products are what the page shows.
    widths : sequence of int, optional
        Several widths give a slider that keeps only the first so many components of query and
        key, and a switch that divides by the root of the width. By default there is one width,
        E, and a slider that multiplies the scores.
    divide : bool
        Whether the dot products are divided by the root of the width.
    sharpness : float
        The first factor of the scores, 0 or more.
    selected : int
        The token that asks first.
    labels : mapping of str to str, optional
        Texts in place of those of `LABELS`, for another language.

    Notes
    -----
    The state holds numbers and text only, no binary buffers: it can be saved as JSON.
    """

    _esm = read("parts.js", "explorer.js")
    _css = read("parts.css", "explorer.css")

    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    widths = traitlets.List(traitlets.Int()).tag(sync=True)
    scores: traitlets.List = traitlets.List().tag(sync=True)
    width_index = traitlets.Int(0).tag(sync=True)
    divide = traitlets.Bool(True).tag(sync=True)
    sharpness = traitlets.Float(1.0, min=0.0).tag(sync=True)
    selected = traitlets.Int(0).tag(sync=True)
    labels: traitlets.Dict = traitlets.Dict(LABELS).tag(sync=True)
    static_height = traitlets.Int(0).tag(sync=True)  # room that a saved page keeps, in pixels

    def __init__(
        self,
        tokens: Sequence[str],
        query: Any,
        key: Any,
        *,
        widths: Sequence[int] | None = None,
        divide: bool = True,
        sharpness: float = 1.0,
        selected: int = 0,
        labels: Mapping[str, str] | None = None,
        **layout: Any,
    ) -> None:
        tokens = [str(token) for token in tokens]
        query, key = np.asarray(query, dtype=float), np.asarray(key, dtype=float)
        _check(tokens, query, key)
        widths = [query.shape[1]] if widths is None else [int(width) for width in widths]
        if not widths or min(widths) < 1 or max(widths) > query.shape[1]:
            raise ValueError(f"widths must lie in 1 ... {query.shape[1]}, got {widths}")
        if not 0 <= selected < len(tokens):
            raise ValueError(f"selected must lie in 0 ... {len(tokens) - 1}, got {selected}")
        super().__init__(
            tokens=tokens,
            widths=widths,
            scores=[(query[:, :width] @ key[:, :width].T).tolist() for width in widths],
            divide=divide,
            sharpness=sharpness,
            selected=selected,
            labels=labels_from(LABELS, labels),
            static_height=_height(len(tokens), len(widths)),
            **layout,
        )


def _height(num_tokens: int, num_widths: int) -> int:
    """Return about how many pixels the figure is high, so that a loading page does not jump."""
    side_by_side = num_tokens <= 7
    tables = 24 * num_tokens if side_by_side else 60 + 48 * num_tokens
    return 230 + tables + (34 if num_widths > 1 else 0)


def _check(tokens: list[str], query: np.ndarray, key: np.ndarray) -> None:
    """Refuse vectors that do not belong to the tokens or cannot be saved as JSON."""
    for name, vectors in (("query", query), ("key", key)):
        if vectors.ndim != 2 or len(vectors) != len(tokens) or not len(tokens):
            raise ValueError(
                f"{name} must have one vector for each of the {len(tokens)} tokens (at least "
                f"one), got shape {vectors.shape}"
            )
        if not np.isfinite(vectors).all():
            raise ValueError(f"{name} must be finite: a saved page cannot hold nan or inf")
    if query.shape != key.shape:
        raise ValueError(f"query has width {query.shape[1]}, key has width {key.shape[1]}")
