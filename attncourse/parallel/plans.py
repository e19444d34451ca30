"""Schedules for a ring of processing elements: who does what, and what travels meanwhile.

New here: three ways to share the scores. *Full* takes every block past every element. *Causal*
leaves out later keys. *Symmetric* serves queries that equal the keys: a score is then that of two
pairs, so each pair of blocks needs to meet once, on half of the way, and the visitor takes the
scores home that its own rows need.

Left out: following a schedule, and checking it (`attncourse.parallel.schedule`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from attncourse.parallel import sharding

__all__ = ["SCHEMES", "Op", "Plan", "Round", "plan"]

SCHEMES = ("full", "symmetric", "causal")


class Op(NamedTuple):
    """What an element does in one slot: score a row with a column, or add a value to a row."""

    kind: str  # "score" or "add"
    row: int
    col: int


@dataclass
class Round:
    """A stretch of time in which every element works on what has arrived before it.

    Attributes
    ----------
    what : {"key", "value"}
        Which vectors are travelling.
    ops : list of list of Op
        One list an element, one op a slot.
    moves : bool
        Whether every element sends what is visiting it to the next one meanwhile.
    """

    what: str
    ops: list[list[Op]]
    moves: bool = True


@dataclass
class Plan:
    """A whole schedule.

    Attributes
    ----------
    elements, num_tokens : int
        m and n.
    scheme : str
        One of `SCHEMES`.
    homes : list of list of int
        Which tokens each element owns.
    rounds : list of Round
        What happens, in order.
    """

    elements: int
    num_tokens: int
    scheme: str
    homes: list[list[int]]
    rounds: list[Round] = field(default_factory=list)

    @property
    def work(self) -> int:
        """All ops of all elements."""
        return sum(len(ops) for round_ in self.rounds for ops in round_.ops)


def plan(num_tokens: int, elements: int, scheme: str = "full", order: str = "plain") -> Plan:
    """Make a schedule.

    Parameters
    ----------
    num_tokens, elements : int
        n and m; m divides n.
    scheme : {"full", "symmetric", "causal"}
        All scores; each score of a symmetric matrix once; only those of keys that are not later.
    order : {"plain", "zigzag"}
        How the tokens are dealt out to the elements.

    Raises
    ------
    ValueError
        When the tokens cannot be dealt out evenly, or the scheme is unknown.
    """
    pieces = elements * (2 if order == "zigzag" else 1)
    if num_tokens % pieces:
        raise ValueError(f"{num_tokens} tokens cannot be cut into {pieces} equal pieces")
    if scheme not in SCHEMES:
        raise ValueError(f"scheme must be one of {SCHEMES}, got {scheme!r}")
    homes = [
        [i for run in sharding.runs(num_tokens, p, elements, order) for i in range(num_tokens)[run]]
        for p in range(elements)
    ]
    result = Plan(elements, num_tokens, scheme, homes)
    if scheme == "symmetric":
        result.rounds += _symmetric_scores(homes)
    else:
        seen = causal if scheme == "causal" else _all
        result.rounds += _tour("key", "score", homes, seen)
    result.rounds += _tour("value", "add", homes, causal if scheme == "causal" else _all)
    return result


def _all(row: int, col: int) -> bool:
    return True


def causal(row: int, col: int) -> bool:
    return col <= row


def _tour(
    what: str, kind: str, homes: list[list[int]], seen: Callable[[int, int], bool]
) -> list[Round]:
    """Take every block past every element once: m meetings, m - 1 hops."""
    elements = len(homes)
    rounds = []
    for step in range(elements):
        ops = [
            [Op(kind, i, j) for i in homes[p] for j in homes[(p - step) % elements] if seen(i, j)]
            for p in range(elements)
        ]
        rounds.append(Round(what, ops, moves=step + 1 < elements))
    return rounds


def _symmetric_scores(homes: list[list[int]]) -> list[Round]:
    """Score each pair once, on half of the way round; the visitor takes its scores home.

    What an element has to do with its own tokens needs no visitor, so it fills the rounds in which
    nothing else is to be done.
    """
    elements = len(homes)
    met = range(1, elements // 2 + 1)
    idle = [step for step in range(elements) if step not in met]
    rounds = []
    for step in range(elements):
        ops = []
        for p, own in enumerate(homes):
            if step in met:
                ops.append(_pairs_once(own, homes[(p - step) % elements], p, step, elements))
            else:
                pairs = [Op("score", i, j) for i in own for j in own if j <= i]
                part = idle.index(step)
                cuts = [len(pairs) * k // len(idle) for k in (part, part + 1)]
                ops.append(pairs[slice(*cuts)])
        rounds.append(Round("key", ops))
    return rounds


def _pairs_once(own: list[int], other: list[int], p: int, step: int, elements: int) -> list[Op]:
    """List the pairs of two blocks; where both meet each other at once, half of them."""
    pairs = [Op("score", i, j) for i in own for j in other]
    if 2 * step != elements:
        return pairs
    first = p >= elements // 2  # the two elements take the squares of a chessboard
    return [op for op in pairs if ((own.index(op.row) + other.index(op.col)) % 2 == 0) == first]
