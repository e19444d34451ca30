"""The zoo: wrong answers with a name, and the search for the one that an answer equals.

The one idea: a test that fails says *that* something is wrong; a wrong answer that gives the same
numbers on the same inputs says *what*. A file such as
`wrong/q3_scale_forgotten.py` starts with a docstring: its first line is the mistake's name, each
further paragraph is a hint, the mildest first.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncourse.grading.exercise import ExerciseError, Spec
from attncourse.grading.inside.calls import Calls
from attncourse.grading.inside.wire import StudentError, plain
from attncourse.grading.student import Asked, Transport

__all__ = ["Mistake", "nearest", "read_answers", "same"]

MOST_NUMBERS = 50_000
_BY_NAME = ("call", "new", "grad", "changed")  # what names a function of the answer itself


@dataclass(frozen=True)
class Mistake:
    """One answer of the zoo, wrong or right.

    Parameters
    ----------
    file : str
        Its file without `.py`.
    question : str
        Whose answer it is.
    name : str
        The mistake in a few words.
    hints : tuple of str
        In tiers.
    source : str
        The code.
    """

    file: str
    question: str
    name: str
    hints: tuple[str, ...]
    source: str

    def namespace(self, names: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run the code over a copy of some names and return all names that it leaves."""
        space: dict[str, Any] = {"np": np, **(names or {})}
        exec(compile(self.source, f"<{self.file}>", "exec"), space)
        return space


def read_answers(spec: Spec, folder: str) -> list[Mistake]:
    """Read the answers in `wrong` or `right`.

    Parameters
    ----------
    spec : Spec
        The exercise.
    folder : str
        `wrong` or `right`.

    Returns
    -------
    list of Mistake
        Sorted by file.
    """
    answers = []
    for file in sorted((spec.path / folder).glob("*.py")):
        source = file.read_text(encoding="utf-8")
        question, _, _ = file.stem.partition("_")
        spec.question(question)
        doc = ast.get_docstring(ast.parse(source))
        if not doc:
            raise ExerciseError(f"{file}: the first line must be a docstring: the answer's name")
        name, *hints = (re.sub(r"\s+", " ", part).strip() for part in doc.split("\n\n"))
        answers.append(Mistake(file.stem, question, name.rstrip("."), tuple(hints), source))
    return answers


def same(left: Any, right: Any, tolerance: float = 1e-9) -> bool:
    """Say whether two plain values are equal, numbers to a tolerance.

    Examples
    --------
    >>> same([1.0, np.array([2.0])], [1.0 + 1e-12, np.array([2.0])]), same(None, 0.0)
    (True, False)
    """
    if isinstance(left, list) and isinstance(right, list):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(same(a, b, tolerance) for a, b in pairs)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            same(left[key], right[key], tolerance) for key in left
        )
    numbers = (bool, int, float, np.ndarray)
    if isinstance(left, numbers) and isinstance(right, numbers):
        one, two = np.asarray(left), np.asarray(right)
        if one.shape != two.shape or (one.dtype == bool) != (two.dtype == bool):
            return False
        one, two = one.astype(float), two.astype(float)
        return bool(np.allclose(one, two, rtol=tolerance, atol=tolerance, equal_nan=True))
    return type(left) is type(right) and not isinstance(left, Exception) and bool(left == right)


def _size(value: Any) -> int:
    """Return how many numbers a value holds."""
    if isinstance(value, np.ndarray):
        return value.size
    if isinstance(value, (list, tuple)):
        return sum(map(_size, value))
    return sum(map(_size, value.values())) if isinstance(value, dict) else 1


def _can_replay(trace: list[Asked], space: Mapping[str, Any]) -> bool:
    """Say whether a mistake can be asked what a test asked: it need not define all functions."""
    # Arguments may come from the learner (the state of a loop): never take large ones.
    return all(
        asked.request["do"] != "measure"
        and not asked.broken
        and _size(asked.request) <= MOST_NUMBERS
        and (asked.request["do"] not in _BY_NAME or asked.request["name"] in space)
        for asked in trace
    )


def _equals(trace: list[Asked], space: Mapping[str, Any], arrays: Mapping[str, str]) -> bool | None:
    """Ask a mistake what a test asked the learner.

    Returns
    -------
    bool or None
        False if an answer differs, True if all are the same, None if no number was compared.
    """
    calls, compared = Calls(space, arrays), False
    for asked in trace:
        try:
            given = calls.answer(asked.request)
        except StudentError:
            # Both fail here: nothing differs, and no call can follow.
            return (compared or None) if asked.failed else False
        if asked.failed:
            return False
        if asked.request["do"] == "new":
            continue
        if not same(asked.given, given):
            return False
        compared = True
    return compared or None


def _fits(mistake: Mistake, spec: Spec, rows: Sequence[Any]) -> set[str]:
    """Return the failed tests whose output a mistake gives; none if it differs on any test."""
    found: set[str] = set()
    with np.errstate(all="ignore"):
        space = mistake.namespace()
        for row in rows:
            if not _can_replay(row.trace, space):
                continue
            equal = _equals(row.trace, space, spec.callables)
            if equal is False:
                return set()
            if equal and row.outcome == "failed":
                found.add(row.nodeid)
    return found


def _varied(value: Any, rng: np.random.Generator) -> Any:
    """Return an argument with other numbers: floats moved, some truths turned."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        moved = value + 0.3 * rng.normal(size=value.shape) * (1.0 + 0.1 * np.abs(value))
        return np.where(np.isfinite(value), moved, value).astype(value.dtype)
    if isinstance(value, np.ndarray) and value.dtype == bool:
        return value ^ (rng.random(value.shape) < 0.3)
    if isinstance(value, float) and np.isfinite(value):
        return value * (1.0 + 0.2 * rng.random())
    if isinstance(value, (list, tuple)):
        return [_varied(item, rng) for item in value]
    if isinstance(value, dict):
        return {key: _varied(item, rng) for key, item in value.items()}
    return value


def _still_equal(mistake: Mistake, spec: Spec, rows: Sequence[Any], learner: Transport) -> bool:
    """Tell whether learner and mistake agree on numbers that no test has asked about."""
    rng, space = np.random.default_rng(7), mistake.namespace()
    calls = [
        asked.request
        for row in rows
        for asked in row.trace
        if asked.request["do"] == "call" and _can_replay([asked], space)
    ]
    for request in calls:
        given = _varied({key: request[key] for key in ("args", "kwargs")}, rng)
        asked = Asked({**request, **given})
        learner.begin(rows[0].question)
        with contextlib.suppress(StudentError):
            asked.given, asked.failed = plain(learner.ask(asked.request)), False
        if _equals([asked], space, spec.callables) is False:
            return False
    return True


def nearest(
    spec: Spec, results: Sequence[Any], learner: Transport | None = None
) -> dict[str, Mistake]:
    """Find the one mistake that the answer of a question equals.

    Parameters
    ----------
    spec : Spec
        The exercise.
    results : sequence of TestResult
        Of public tests, passed ones included.
    learner : Transport, optional
        Who answers for the learner: asked once more, with other numbers, before a mistake is named.

    Returns
    -------
    dict of str to Mistake
        Failed test -> the mistake. A mistake is named only if it gives the output of every test of
        its question that can be run again, only if no other does so too, and only if it gives the
        learner's output on other numbers as well: a small test may not tell two mistakes apart.
    """
    named: dict[str, Mistake] = {}
    for question in {row.question for row in results if row.outcome == "failed"}:
        rows = [row for row in results if row.question == question]
        own = [each for each in read_answers(spec, "wrong") if each.question == question]
        fits = [(each, tests) for each in own if (tests := _fits(each, spec, rows))]
        if len(fits) != 1:
            continue
        ((mistake, tests),) = fits
        with np.errstate(all="ignore"):
            if learner is not None and not _still_equal(mistake, spec, rows, learner):
                continue
        named |= dict.fromkeys(sorted(tests), mistake)
    return named
