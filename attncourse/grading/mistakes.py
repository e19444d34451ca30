"""The zoo: wrong answers with a name, and the search for the one that an answer equals.

The one idea: a test that fails says *that* something is wrong; a wrong answer that gives the same
numbers on the same inputs says *what*. A file such as
`wrong/q3_scale_forgotten.py` starts with a docstring: its first line is the mistake's name, each
further paragraph is a hint, the mildest first.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncourse.grading.calls import Calls
from attncourse.grading.exercise import ExerciseError, Spec
from attncourse.grading.local import Asked, same
from attncourse.grading.wire import StudentError

__all__ = ["Mistake", "nearest", "read_answers"]

_REPLAYED = ("call", "new", "method", "attribute", "grad")


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


def _equals(trace: list[Asked], space: Mapping[str, Any], arrays: Mapping[str, str]) -> bool:
    """Ask a mistake what the learner was asked; say whether all answers are the same."""
    calls, compared = Calls(space, arrays), 0
    for asked in trace:
        if asked.do not in _REPLAYED or isinstance(asked.given, StudentError):
            return False
        try:
            given = getattr(calls, asked.do)(*asked.args)
        except StudentError:
            return False
        if asked.do == "new":
            continue
        if not same(asked.given, given):
            return False
        compared += 1
    return compared > 0


def nearest(
    spec: Spec, question: str, traces: Mapping[str, list[Asked]], failed: list[str]
) -> dict[str, Mistake]:
    """Find the mistake that an answer equals, for each failed test.

    Parameters
    ----------
    spec : Spec
        The exercise.
    question : str
        Whose mistakes are tried.
    traces : mapping
        Test -> what it asked, and what the learner's code gave.
    failed : list of str
        The tests that did not pass.

    Returns
    -------
    dict of str to Mistake
        Failed test -> the mistake; where several fit, the one that fits most tests.
    """
    fits: list[tuple[int, Mistake, set[str]]] = []
    for mistake in read_answers(spec, "wrong"):
        if mistake.question != question:
            continue
        with np.errstate(all="ignore"):
            space = mistake.namespace()
            tests = {test for test in traces if _equals(traces[test], space, spec.callables)}
        fits.append((len(tests), mistake, tests))
    fits.sort(key=lambda fit: -fit[0])
    named: dict[str, Mistake] = {}
    for _, mistake, tests in fits:
        named.update({test: mistake for test in tests.intersection(failed) - named.keys()})
    return named
