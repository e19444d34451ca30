"""How scores and turned vectors work: sums of random signs, and arrows in a circle.

The one idea: what two vectors make of each other is a sum with much cancelling, and an angle. Each
drawing is made from the arrays of the page that shows it. The primitives are in `drawings`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attncourse.plotting.drawings import INK, KEY, QUERY, WIDEST, Drawing

__all__ = ["random_walks", "turned_pairs"]


def random_walks(signs: Any) -> Drawing:
    """Draw how sums of random signs move away from 0, beside the root of the number of signs.

    Parameters
    ----------
    signs : array_like, shape (walks, steps)
        Numbers that are added up one after the other, such as +1 and -1; at least 4 steps.

    Returns
    -------
    Drawing

    Raises
    ------
    ValueError
        For another shape.
    """
    signs = np.asarray(signs, dtype=float)
    if signs.ndim != 2 or signs.shape[1] < 4:
        raise ValueError(f"signs must have shape (walks, steps), 4 steps or more; {signs.shape}")
    walks, steps = signs.shape
    root, height = np.sqrt(steps), 250
    sums = np.concatenate([np.zeros((walks, 1)), signs.cumsum(axis=1)], axis=1)
    low, top = min(-1.3 * root, sums.min()), max(1.3 * root, sums.max())
    picture = Drawing(
        WIDEST,
        height,
        f"{walks} sums of up to {steps} random signs. They wander to both sides of 0, most of them "
        f"between minus and plus the root of the number of signs, which ends at {root:.0f}.",
    )
    left, right, scale = 4.0, WIDEST - 80, (height - 34) / (top - low)
    at = np.arange(steps + 1)
    across = left + (right - left) * at / steps  # (steps + 1,)

    def line(heights: np.ndarray, look: str) -> None:
        rows = 4 + scale * (top - np.asarray(heights))
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, rows, strict=True))
        picture.parts.append(f'<polyline points="{points}" fill="none" {look}/>')

    for walk in sums:
        line(walk, f'stroke="{QUERY}" stroke-width="1" stroke-opacity="0.45"')
    line(0 * at, f'stroke="{INK}" stroke-width="1"')
    for sign, name in ((1, f"√{steps} = {root:.0f}"), (-1, f"\N{MINUS SIGN}{root:.0f}")):
        line(sign * np.sqrt(at), f'stroke="{KEY}" stroke-width="2.5" stroke-dasharray="6 4"')
        picture.label(right + 4, 4 + scale * (top - sign * root), name, anchor="start", color=KEY)
    picture.label(right + 4, 4 + scale * top, "0", anchor="start")
    picture.label((left + right) / 2, height - 10, f"products added, 1 to {steps}")
    return picture


def turned_pairs(pairs: Sequence[tuple[str, Any, Any]]) -> Drawing:
    """Draw a query and a key of width 2 at several positions, each pair in a circle.

    Parameters
    ----------
    pairs : sequence of (str, array_like, array_like)
        At most 2: where the two stand, the turned query and the turned key, shapes (2,).

    Returns
    -------
    Drawing

    Raises
    ------
    ValueError
        For more pairs, or vectors of another width.
    """
    shapes = {np.shape(vector) for _, *vectors in pairs for vector in vectors}
    if not 1 <= len(pairs) <= 2 or shapes != {(2,)}:
        raise ValueError(f"expected 1 or 2 pairs of vectors (2,), got {len(pairs)}, {shapes}")
    told = [f"{name}: q · k = {_number(np.dot(q, k))}" for name, q, k in pairs]
    picture = Drawing(WIDEST, 236, f"A query and a key as arrows in a circle. {'; '.join(told)}.")
    longest = max(np.linalg.norm(vector) for _, *vectors in pairs for vector in vectors)
    for i, (name, q, k) in enumerate(pairs):
        x, y, radius = WIDEST * (i + 0.5) / len(pairs), 114.0, 66.0
        picture.label(x, 10, name, bold=True, room=WIDEST / len(pairs))
        picture.parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="none" stroke="{INK}"'
            ' stroke-opacity="0.4"/>'
        )
        for letter, vector, color in (("q", q, QUERY), ("k", k, KEY)):
            along = np.asarray(vector, dtype=float) * [1, -1] / longest  # up is positive
            picture.arrow((x, y), tuple(radius * along + [x, y]), color=color, width=2.5)
            beyond = (radius * np.linalg.norm(along) + 15) * along / np.linalg.norm(along)
            picture.label(x + beyond[0], y + beyond[1], letter, color=color, bold=True)
        picture.label(x, 222, f"q · k = {_number(np.dot(q, k))}", room=WIDEST / len(pairs))
    return picture


def _number(value: float) -> str:
    """Write a number with two decimals and a real minus sign."""
    return f"{value:.2f}".replace("-", "\N{MINUS SIGN}")
