"""How heads and masks work: the shapes of split and join, shared keys, a mask at its corner.

The one idea: a shape is easier to follow as a drawing than as a line of code, and a drawing that is
made from the page's own sizes and masks cannot disagree with its code. The primitives are in
`drawings`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attncourse.plotting.drawings import INK, KEY, OUT, QUERY, VALUE, WIDEST, Drawing

__all__ = ["corners", "shared_heads", "split_and_join"]

_ROLES = {"q": QUERY, "k": KEY, "v": VALUE}


def split_and_join(num_tokens: int, num_heads: int, head_dim: int) -> Drawing:
    """Draw the shapes on the way through multi-head attention.

    Parameters
    ----------
    num_tokens, num_heads, head_dim : int
        L, H and E; small ones fit: at most 4, 4 and 3, and at most 8 for H times E.

    Returns
    -------
    Drawing

    Raises
    ------
    ValueError
        For sizes that do not fit.
    """
    L, H, E = num_tokens, num_heads, head_dim
    if not (1 <= L <= 4 and 1 <= H <= 4 and 1 <= E <= 3 and H * E <= 8):
        raise ValueError(f"at most 4 tokens, 4 heads, 3 wide, 8 in all; got {L}, {H}, {E}")
    tall, wide, cell = 11 * L, 11 * H * E, 11
    picture = Drawing(
        WIDEST,
        5 * tall + 285,
        f"Queries, keys and values of {L} tokens are {L} by {H * E} matrices. Split: each of {H} "
        f"heads gets {E} columns of all three. Attend: every head makes a {L} by {E} result. "
        f"Join: the results stand side by side, {L} by {H * E}, and W^O mixes them.",
    )
    middle, y = WIDEST / 2, 24.0
    for i, (name, color) in enumerate(_ROLES.items()):
        x = middle + (i - 1) * (wide + 34) - wide / 2
        picture.label(x + wide / 2, 10, f"{name}  {L} × {H * E}", color=color)
        _blocks(picture, (x, y), (L, E, H), color)
    y = _step(picture, y + tall, "split: each head takes E columns")
    room = WIDEST / H
    for head in range(H):
        left = room * head + room / 2 - (3 * E * cell + 12) / 2
        picture.label(room * (head + 0.5), y + 8, f"head {head}")
        for i, color in enumerate(_ROLES.values()):
            _block(picture, (left + i * (E * cell + 6), y + 20), (L, E), color, head)
    y = _step(picture, y + 20 + tall, "attend, in each head by itself")
    for head in range(H):
        _block(picture, (room * (head + 0.5) - E * cell / 2, y), (L, E), OUT, head)
    y = _step(picture, y + tall, "join: side by side")
    _blocks(picture, (middle - wide / 2, y), (L, E, H), OUT)
    picture.label(middle + wide / 2 + 8, y + tall / 2, f"{L} × {H * E}", anchor="start")
    y = _step(picture, y + tall, "× W_O: mixes the heads")
    _block(picture, (middle - wide / 2, y), (L, H * E), OUT, 1)
    picture.label(middle + wide / 2 + 8, y + tall / 2, f"{L} × d_model", anchor="start")
    return picture


def shared_heads(num_heads: int, num_kv_heads: Sequence[int]) -> Drawing:
    """Draw which query heads share a head of keys and values, one row per way of sharing.

    Parameters
    ----------
    num_heads : int
        H, at most 8.
    num_kv_heads : sequence of int
        Divisors of H, one for each row.

    Returns
    -------
    Drawing

    Raises
    ------
    ValueError
        If H is too large, or is not a multiple of one of them.
    """
    odd = [n for n in num_kv_heads if n < 1 or num_heads % n]
    if not 1 <= num_heads <= 8 or odd:
        raise ValueError(f"expected at most 8 heads and divisors of them, got {num_heads}, {odd}")
    told = "; ".join(f"{n} share {num_heads // n} query heads each" for n in num_kv_heads)
    picture = Drawing(
        WIDEST, 132 * len(num_kv_heads), f"Key and value heads drawn in rows: {told}."
    )
    step = WIDEST / num_heads
    for row, kept in enumerate(num_kv_heads):
        y, group = 132 * row, num_heads // kept
        text = f"{kept} key/value heads: {2 * kept} E numbers per token"
        picture.label(2, y + 12, text, anchor="start", bold=True, room=WIDEST)
        for head in range(num_heads):
            x = step * (head + 0.5)
            end = step * (head // group + 0.5) * group
            picture.box(x - 17, y + 28, 34, 24, f"q{head}", color=QUERY)
            picture.arrow((x, y + 53), (end, y + 85))
        for head in range(kept):
            x = step * (head + 0.5) * group
            picture.box(x - 19, y + 86, 19, 26, "k", color=KEY)
            picture.box(x, y + 86, 19, 26, "v", color=VALUE)
    return picture


def corners(named: dict[str, Any]) -> Drawing:
    """Draw masks of L queries and S keys in the square of all S tokens, each at its corner.

    Parameters
    ----------
    named : dict of str to array_like of bool, shape (L, S)
        At most 2 causal masks, True = attend, L at most S and S at most 6. A mask whose last row
        sees every key stands at the bottom of its square, another at the top.

    Returns
    -------
    Drawing

    Raises
    ------
    ValueError
        For masks that do not fit.
    """
    masks = {name: np.asarray(mask, dtype=bool) for name, mask in named.items()}
    if not 1 <= len(masks) <= 2 or any(m.ndim != 2 or m.shape[1] > 6 for m in masks.values()):
        raise ValueError(
            f"expected 1 or 2 masks (L, S), S <= 6; got {[*map(np.shape, masks.values())]}"
        )
    told = [f"{name}: rows of {m.sum(axis=1).tolist()} keys" for name, m in masks.items()]
    picture = Drawing(WIDEST, 238, f"Masks in the square of all tokens. {'; '.join(told)}.")
    for i, (name, mask) in enumerate(masks.items()):
        L, S = mask.shape
        size = 150 / S
        left, first = WIDEST * (i + 0.5) / len(masks) - 75, S - L if mask[-1].all() else 0
        picture.label(left + 75, 10, name, bold=True, room=WIDEST / len(masks))
        picture.label(left + 75, 32, f"keys 0 to {S - 1}", color=KEY)
        for row, column in np.ndindex(S, S):
            asked = first <= row < first + L
            seen = mask[row - first, column] if asked else column <= row
            _cell(picture, (left + size * column, 46 + size * row), size, bool(seen), asked)
        picture.parts.append(
            f'<rect x="{left:.1f}" y="{46 + size * first:.1f}" width="150" height="{size * L:.1f}"'
            f' fill="none" stroke="{OUT}" stroke-width="3"/>'
        )
        whose = "newest" if first else "oldest"
        picture.label(left + 75, 214, f"rows: the {L} {whose}", color=OUT, room=WIDEST / len(masks))
    return picture


def _block(
    picture: Drawing, at: tuple[float, float], shape: tuple[int, int], color: str, head: int
) -> None:
    """Draw a matrix of small cells; each head has a fill of its own."""
    for row in range(shape[0]):
        picture.cells(
            at[0], at[1] + 11 * row, [0.15 + 0.3 * (head % 3)] * shape[1],
            size=11, color=color, down=False,
        )  # fmt: skip


def _blocks(
    picture: Drawing, at: tuple[float, float], shape: tuple[int, int, int], color: str
) -> None:
    """Draw a matrix that holds the columns of all heads, one head after the other."""
    rows, width, heads = shape
    for head in range(heads):
        _block(picture, (at[0] + 11 * width * head, at[1]), (rows, width), color, head)


def _step(picture: Drawing, y: float, text: str) -> float:
    """Draw an arrow down and what it does; return where the next row starts."""
    picture.arrow((30, y + 6), (30, y + 46))
    picture.label(44, y + 26, text, anchor="start", bold=True)
    return y + 52


def _cell(picture: Drawing, at: tuple[float, float], size: float, seen: bool, asked: bool) -> None:
    """Draw one cell of a mask: filled if seen, crossed if not, faint if nobody asks."""
    (x, y), strength = at, 1.0 if asked else 0.35
    fill = f'fill="{QUERY}" fill-opacity="{0.75 if asked else 0.2}"' if seen else 'fill="none"'
    picture.parts.append(
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{size:.1f}" height="{size:.1f}" {fill}'
        f' stroke="{INK}" stroke-opacity="{0.5 * strength}"/>'
    )
    if not seen:
        picture.parts.append(
            f'<path d="M{x:.1f} {y + size:.1f}L{x + size:.1f} {y:.1f}" stroke="{INK}"'
            f' stroke-opacity="{0.6 * strength}"/>'
        )
