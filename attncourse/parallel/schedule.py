"""Attention on a ring of processing elements, simulated cycle by cycle.

New here: a schedule that says what each element does in each cycle, and a machine that obeys it
and checks it. An element computes one thing at a time, from what it holds; a link carries one
vector at a time, one way round. Scores come first, then each row's softmax, then the weighted sum.
If no element ever waits, m elements are m times as fast as one: cycles = work / m.

This is *after* Yu and Fujita 2020: their machine and their question. Their text could not be read,
only its abstract and a summary, so the schedules here are ours. Left out: the cycles of softmax.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attncourse import softmax
from attncourse.parallel.plans import Op, Plan, Round, plan

__all__ = ["Outcome", "ScheduleError", "execute", "plan"]


class ScheduleError(ValueError):
    """A schedule that no machine could follow."""


@dataclass(frozen=True)
class Outcome:
    """What the machine did.

    Attributes
    ----------
    out : ndarray, shape (n, Ev)
        The attention that it computed.
    cycles : int
        How long it took: slots times the width, one multiplication and addition a cycle.
    work : int
        Multiplications and additions of all elements.
    busy : ndarray of bool, shape (m, slots)
        When each element worked.
    """

    out: np.ndarray
    cycles: int
    work: int
    busy: np.ndarray


class _Machine:
    """The elements, their registers and their links."""

    def __init__(self, plan: Plan, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> None:
        self.plan, self.q, self.vectors = plan, q, {"key": k, "value": v}
        self.home = {i: p for p, own in enumerate(plan.homes) for i in own}
        self.visiting: list[list[int]] = [list(own) for own in plan.homes]
        self.scores: list[dict[tuple[int, int], float]] = [{} for _ in plan.homes]
        self.luggage: dict[int, dict[int, float]] = {}
        self.weights: dict[int, dict[int, float]] = {}
        self.out = np.zeros((plan.num_tokens, v.shape[1]))

    def run_round(self, number: int, round_: Round) -> int:
        """Carry out one round; return how many slots it takes."""
        for p, ops in enumerate(round_.ops):
            for slot, op in enumerate(ops):
                self._carry_out(op, p, f"element {p}, round {number}, slot {slot}", round_.what)
        slots = max(len(ops) for ops in round_.ops)
        return max(slots, self._move()) if round_.moves else slots

    def start_phase(self) -> None:
        """Bring every block home: values start from where they live, as keys did."""
        self.visiting = [list(own) for own in self.plan.homes]

    def _carry_out(self, op: Op, p: int, where: str, what: str) -> None:
        if self.home[op.row] != p:
            raise ScheduleError(f"{where}: row {op.row} lives on element {self.home[op.row]}")
        if op.col not in self.visiting[p] and self.home[op.col] != p:
            raise ScheduleError(f"{where}: {what} {op.col} is not there")
        if op.kind == "score":
            if (op.row, op.col) in self.scores[p]:
                raise ScheduleError(f"{where}: row {op.row} has scored {op.col} before")
            score = float(self.q[op.row] @ self.vectors["key"][op.col]) * self.q.shape[1] ** -0.5
            self.scores[p][op.row, op.col] = score
            if self.plan.scheme == "symmetric" and op.row != op.col:
                self._score_for_column(op, p, score)
            return
        if op.row not in self.weights:
            self.weights[op.row] = self._softmax(op.row, where)
        weight = self.weights[op.row].pop(op.col, None)
        if weight is None:
            raise ScheduleError(f"{where}: row {op.row} may not add {op.col}, or did so before")
        self.out[op.row] += weight * self.vectors["value"][op.col]

    def _score_for_column(self, op: Op, p: int, score: float) -> None:
        """Use a score for the column's own row too: at once if it lives here, else as luggage."""
        if self.home[op.col] == p:
            self.scores[p][op.col, op.row] = score
        else:
            self.luggage.setdefault(op.col, {})[op.row] = score

    def _softmax(self, row: int, where: str) -> dict[int, float]:
        """Turn a row's scores into weights; all of them must be there."""
        known = self.scores[self.home[row]]
        cols = range(row + 1 if self.plan.scheme == "causal" else self.plan.num_tokens)
        missing = [col for col in cols if (row, col) not in known]
        if missing:
            raise ScheduleError(f"{where}: row {row} still lacks the scores of {missing}")
        shares = softmax.stable(np.array([known[row, col] for col in cols]))
        return dict(zip(cols, shares, strict=True))

    def _move(self) -> int:
        """Send every visiting block one element on, with its luggage; return the slots it takes."""
        width, longest = self.q.shape[1], 0
        for block in self.visiting:
            numbers = sum(width + len(self.luggage.get(token, {})) for token in block)
            longest = max(longest, -(-numbers // width))
        self.visiting = [self.visiting[p - 1] for p in range(self.plan.elements)]
        for p, block in enumerate(self.visiting):
            for token in block:
                if self.home[token] == p:
                    for other, score in self.luggage.pop(token, {}).items():
                        self.scores[p][token, other] = score
        return longest


def execute(plan: Plan, query: np.ndarray, key: np.ndarray, value: np.ndarray) -> Outcome:
    """Follow a schedule, checking every step.

    Parameters
    ----------
    plan : Plan
        From `plan`, or changed by hand.
    query, key, value : ndarray, shapes (n, E), (n, E), (n, Ev)
        One head. The symmetric scheme needs equal queries and keys.

    Returns
    -------
    Outcome

    Raises
    ------
    ScheduleError
        When an element needs what it does not hold, a row's softmax comes before all of its
        scores, or a pair is left out or taken twice.
    ValueError
        When the sizes do not fit the plan.

    Notes
    -----
    **Source:** after Yu and Fujita 2020 (arXiv:2012.01114).
    """
    if len(query) != plan.num_tokens or len(key) != len(query) or len(value) != len(query):
        raise ValueError(f"the plan is for {plan.num_tokens} tokens, got {len(query)}")
    if plan.scheme == "symmetric" and not np.array_equal(query, key):
        raise ValueError("the symmetric scheme needs equal queries and keys")
    machine, lanes, what = _Machine(plan, query, key, value), [], "key"
    for number, round_ in enumerate(plan.rounds):
        if round_.what != what:
            machine.start_phase()
            what = round_.what
        slots = machine.run_round(number, round_)
        lanes.append(np.array([np.arange(slots) < len(ops) for ops in round_.ops]))
    left = {row: list(cols) for row, cols in machine.weights.items() if cols}
    if left or len(machine.weights) < plan.num_tokens:
        raise ScheduleError(f"these rows and columns were never added up: {left or 'whole rows'}")
    busy, width = np.concatenate(lanes, axis=1), query.shape[1]
    return Outcome(machine.out, busy.shape[1] * width, plan.work * width, busy)
