"""How it works, drawn: an average, a chain, tokens that become rows, and query, key and value.

The one idea: each drawing is made from the arrays of the page that shows it, so its numbers and
shapes are those of the reader's own code. The primitives are in `drawings`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attncourse.plotting.drawings import INK, KEY, OUT, QUERY, SIZE, VALUE, Drawing

__all__ = ["chain_and_look_up", "query_key_value", "tokens_to_rows", "weighted_average"]

_WIDTH = 360.0  # a page of 390 pixels shows it at 310: letters of 12 pixels
_BOX = 30.0


def _columns(number: int) -> tuple[np.ndarray, float]:
    """Return the middles of so many equal columns, and the width of a box in one of them."""
    step = _WIDTH / number
    return step * (np.arange(number) + 0.5), step - 5


def weighted_average(words: Sequence[str], weights: Any, asks: int) -> Drawing:
    """Draw how one word's output is mixed from all words, thick lines for large weights.

    Parameters
    ----------
    words : sequence of str
        The S words, left to right; up to about six short ones fit.
    weights : array_like, shape (S,)
        The share of each word in the output; not negative, with sum 1.
    asks : int
        Which word the output belongs to.

    Returns
    -------
    Drawing

    Raises
    ------
    ValueError
        If there is not one weight for each word, or they are no average.
    """
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (len(words),):
        raise ValueError(f"weights must have shape ({len(words)},), got {weights.shape}")
    if (weights < 0).any() or abs(weights.sum() - 1) > 1e-5:
        raise ValueError(f"weights must be an average, 0 or more with sum 1, got {weights}")
    parts = [f"{weight:.2f} of {word}" for word, weight in zip(words, weights, strict=True)]
    picture = Drawing(_WIDTH, 200, f"The output for {words[asks]} is {', '.join(parts)}.")
    middles, width = _columns(len(words))
    for i, (x, word) in enumerate(zip(middles, words, strict=True)):
        color = QUERY if i == asks else INK
        picture.box(x - width / 2, 1, width, _BOX, word, color=color)
        end = (_WIDTH / 2 + (i - (len(words) - 1) / 2) * 14, 166)
        picture.label(x, 46, f"{weights[i]:.2f}", room=width, bold=weights[i] == weights.max())
        picture.arrow((x, 58), end, width=1 + 7 * weights[i])
    picture.box(_WIDTH / 2 - 85, 168, 170, _BOX, f"{words[asks]}, afterwards", color=OUT)
    return picture


def chain_and_look_up(words: Sequence[str]) -> Drawing:
    """Draw the two ways to the last word: a chain of states, and direct reads.

    Parameters
    ----------
    words : sequence of str
        The words, left to right; up to about six short ones fit.

    Returns
    -------
    Drawing
    """
    last = len(words) - 1
    picture = Drawing(
        _WIDTH,
        322,
        f"Above, a recurrent network: each of {len(words)} states is computed from the one before "
        f"it, so {words[0]} reaches {words[last]} in {last} steps. Below, attention: every word is "
        "read directly, in one step.",
    )
    middles, width = _columns(len(words))
    picture.label(2, 10, "recurrent: one state after the other", anchor="start", bold=True)
    picture.label(2, 188, "attention: every word read directly", anchor="start", bold=True)
    for i, (x, word) in enumerate(zip(middles, words, strict=True)):
        for top in (26, 204):
            picture.box(x - width / 2, top, width, _BOX, word)
        picture.arrow((x, 57), (x, 106))
        picture.box(x - 22, 107, 44, _BOX, f"h{i + 1}", color=KEY)
        if i < last:
            picture.arrow((x + 22, 122), (middles[i + 1] - 23, 122), color=KEY, width=2.5)
        end = middles[last] - 5 * (last - i)
        picture.arrow((x, 235), (end, 289), color=OUT, width=2.0)
    picture.label(2, 152, f"{last} steps from the first word to the last", anchor="start")
    picture.box(middles[last] - 22, 290, 44, _BOX, "out", color=OUT)
    picture.label(2, 305, "1 step from any word", anchor="start")
    return picture


def tokens_to_rows(tokens: Sequence[str], ids: Sequence[int], rows: Any) -> Drawing:
    """Draw a text as tokens, as their numbers, and as the rows of the table with these numbers.

    Parameters
    ----------
    tokens : sequence of str
        The text, cut into L tokens; up to about nine short ones fit. Spaces are drawn as ␣.
    ids : sequence of int, length L
        The number of each token.
    rows : array_like, shape (L, E)
        The row of each; a cell is the fuller the larger its entry is.

    Returns
    -------
    Drawing

    Raises
    ------
    ValueError
        If the three lengths differ.
    """
    rows = np.asarray(rows, dtype=float)
    if not len(tokens) == len(ids) == len(rows):
        raise ValueError(f"expected one id and row per token, got {len(ids)} and {len(rows)}")
    low, high = rows.min(), rows.max()
    shades = (rows - low) / (high - low) if high > low else np.zeros_like(rows)
    named = ", ".join(f"{t!r} is number {i}" for t, i in zip(tokens, ids, strict=True))
    bottom = 110 + 14 * rows.shape[1]
    picture = Drawing(_WIDTH, bottom + 30, f"Tokens, numbers, rows of a table: {named}.")
    middles, width = _columns(len(tokens))
    for x, token, number, shade in zip(middles, tokens, ids, shades, strict=True):
        picture.box(x - width / 2, 1, width, _BOX, token.replace(" ", "␣"))
        picture.arrow((x, 32), (x, 59))
        picture.label(x, 70, str(number), color=KEY, bold=True, room=width)
        picture.arrow((x, 81), (x, 108))
        picture.cells(x - 7, 110, shade, color=VALUE)
    picture.label(_WIDTH / 2, bottom + 16, "their rows in the table; fuller = larger")
    return picture


def query_key_value(x: Any, q: Any, k: Any, v: Any) -> Drawing:
    """Draw the way from the tokens to the output of attention, with the shapes of these arrays.

    Parameters
    ----------
    x : array, shape (L, d_model)
        The tokens.
    q, k, v : array, shapes (L, E), (S, E), (S, Ev)
        Queries, keys and values.

    Returns
    -------
    Drawing
    """
    shape = {
        name: " × ".join(map(str, a.shape)) for name, a in zip("xqkv", (x, q, k, v), strict=True)
    }
    pairs, out = f"{q.shape[0]} × {k.shape[0]}", f"{q.shape[0]} × {v.shape[1]}"
    picture = Drawing(
        _WIDTH,
        452,
        f"Tokens X, {shape['x']}, become queries {shape['q']}, keys {shape['k']} and values "
        f"{shape['v']} by three matrices. Queries times keys give scores {pairs}; softmax along "
        f"each row makes weights; weights times values give the output, {out}.",
    )
    middles, width = _columns(3)
    tall = 3.2 * SIZE
    picture.box(_WIDTH / 2 - 70, 1, 140, tall, "tokens X", shape["x"])
    for middle, name, role, color in zip(
        middles, "qkv", ("queries", "keys", "values"), (QUERY, KEY, VALUE), strict=True
    ):
        picture.arrow((_WIDTH / 2 + (middle - _WIDTH / 2) * 0.4, 47), (middle, 98), color=color)
        picture.box(
            middle - width / 2, 100, width, tall, f"{role} {name}", shape[name], color=color
        )
    left = (middles[0] + middles[1]) / 2
    picture.arrow((middles[0], 147), (left - 30, 190), color=QUERY)
    picture.arrow((middles[1], 147), (left + 30, 190), color=KEY)
    picture.box(left - 95, 192, 190, tall, "scores = q kᵀ / √E", pairs)
    picture.arrow((left, 239), (left, 280))
    picture.label(left + 8, 258, "softmax of each row", anchor="start")
    picture.box(left - 95, 282, 190, tall, "weights", f"{pairs}, rows sum to 1")
    middle = (left + middles[2]) / 2
    picture.arrow((left, 329), (middle - 20, 388))
    picture.arrow((middles[2], 147), (middle + 60, 388), color=VALUE)
    picture.box(middle - 95, 390, 190, tall, "out = weights v", out, color=OUT)
    return picture
