"""Prove that an exercise's tests grade: every known answer is graded, right and wrong.

The one idea: a test suite is itself tested by answers whose grade is known. The solution and each
right answer must get every point, the stub none, and each wrong answer must lose some of its own
question's points in a test that can be named.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from attncourse.grading import plugin
from attncourse.grading.exercise import ExerciseError, Spec
from attncourse.grading.format import program, read_notebook, solution_notebook, student_notebook
from attncourse.grading.local import LocalTransport
from attncourse.grading.mistakes import Mistake, nearest, read_answers
from attncourse.grading.points import exact
from attncourse.grading.running import run

__all__ = ["Kill", "grade_names", "kills", "kills_page", "names_of", "prove"]


@dataclass(frozen=True)
class Kill:
    """What a wrong answer lost.

    Parameters
    ----------
    mistake : Mistake
        The answer.
    public : list of str
        Titles of the public tests that it fails.
    hidden : int
        How many hidden tests it fails.
    lost, total : Fraction
        Points of its question lost, and to be had.
    named : bool
        Whether the instant check names it.
    """

    mistake: Mistake
    public: list[str]
    hidden: int
    lost: Fraction
    total: Fraction
    named: bool


def names_of(source: str) -> dict[str, Any]:
    """Run a notebook's code, magics left out; return all names it leaves."""
    names: dict[str, Any] = {}
    run(source, names, "<notebook>")
    return names


def grade_names(
    spec: Spec, names: dict[str, Any], seed: int | None = None, select: set[str] | None = None
) -> dict[str, list[Any]]:
    """Run both folders of tests against names in this process.

    Parameters
    ----------
    spec : Spec
        The exercise.
    names : dict
        The answer.
    seed : int, optional
        For the fixture `rng`.
    select : set of str, optional
        Questions whose tests run.

    Returns
    -------
    dict of str to list of TestResult
        `public` and `hidden`.

    Raises
    ------
    ExerciseError
        If a test fails by its own fault.
    """
    found = {}
    for folder in ("public", "hidden"):
        answer = LocalTransport(names, spec.callables)
        with np.errstate(all="ignore"):
            rows = plugin.run(spec.path / "tests" / folder, answer, select=select, seed=seed)
        if broken := [f"{row.nodeid}: {row.message}" for row in rows if row.outcome == "error"]:
            raise ExerciseError(f"{spec.id}: a test failed by its own fault: {'; '.join(broken)}")
        found[folder] = rows
    return found


def _lost(rows: list[Any]) -> list[Any]:
    """Return the tests that did not pass."""
    return [row for row in rows if row.outcome != "passed"]


def kills(spec: Spec) -> list[Kill]:
    """Grade every wrong answer and return what each lost.

    Parameters
    ----------
    spec : Spec
        The exercise, with its source.

    Returns
    -------
    list of Kill
        In the order of the files.
    """
    found = []
    source = program(solution_notebook(read_notebook(spec.path / "source.ipynb"), ""))
    for mistake in read_answers(spec, "wrong"):
        names = mistake.namespace(names_of(source))
        rows = grade_names(spec, names, select={mistake.question})
        lost = [row for folder in rows.values() for row in _lost(folder)]
        named = mistake.name in {each.name for each in nearest(spec, rows["public"]).values()}
        found.append(
            Kill(
                mistake,
                [row.title for row in _lost(rows["public"])],
                len(_lost(rows["hidden"])),
                sum((exact(row.points) for row in lost), Fraction(0)),
                exact(spec.question(mistake.question).points),
                named,
            )
        )
    return found


def prove(spec: Spec, *, zoo: bool = True) -> list[str]:
    """Return what the tests grade wrongly; nothing if they grade everything right.

    Parameters
    ----------
    spec : Spec
        The exercise, with its source.
    zoo : bool
        Grade the wrong answers too.

    Returns
    -------
    list of str
    """
    source = read_notebook(spec.path / "source.ipynb")
    solved = names_of(program(solution_notebook(source, "")))
    problems = []
    for seed in (None, 1, 2):
        problems += _must_pass(spec, f"the solution (seed {seed})", solved, seed)
    for answer in read_answers(spec, "right"):
        names = answer.namespace(names_of(program(solution_notebook(source, ""))))
        problems += _must_pass(spec, f"right/{answer.file}.py", names, 3)
    blank = grade_names(spec, names_of(program(student_notebook(source))))
    for row in [*blank["public"], *blank["hidden"]]:
        if row.outcome == "passed":
            problems.append(f"the stub passes {row.nodeid}")
    for kill in kills(spec) if zoo else ():
        if not kill.lost:
            problems.append(f"wrong/{kill.mistake.file}.py loses no points of its question")
    return problems


def _must_pass(spec: Spec, what: str, names: dict[str, Any], seed: int | None) -> list[str]:
    """Return the tests that a right answer fails."""
    rows = grade_names(spec, names, seed)
    lost = [row for folder in rows.values() for row in _lost(folder)]
    return [f"{what} fails {row.nodeid}: {row.message[:300]}" for row in lost]


def kills_page(found: list[tuple[Spec, list[Kill]]]) -> str:
    """Return the book's page of known mistakes, as Markdown, from what `kills` found."""
    lines = [_HEAD]
    for spec, rows in found:
        lines += [f"## {spec.id[:2]} {spec.title}\n", _TABLE]
        for kill in rows:
            tests = "; ".join(kill.public) or "none"
            mark = "yes" if kill.named else "no"
            lost = f"{float(kill.lost):g} of {float(kill.total):g}"
            lines.append(
                f"| {kill.mistake.question} | {kill.mistake.name} | {tests} | "
                f"{kill.hidden} | {lost} | {mark} |"
            )
        lines.append("")
    return "\n".join(lines)


_HEAD = """# Known mistakes

Each row is a wrong answer that was written down on purpose and graded. *Public tests* are those
that it fails in the instant check, *hidden* counts those that it fails when graded, and *named*
says whether the check tells the learner which mistake it is. A test runs all of them again and
compares this page with what comes out: it is written by `attncourse exercise kills --write`, not by
hand. Do an exercise before you read its table.
"""
_TABLE = (
    "| question | mistake | public tests that it fails | hidden | points lost | named |\n"
    "|---|---|---|---|---|---|"
)
