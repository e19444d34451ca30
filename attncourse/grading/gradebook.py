"""The gradebook, and what Canvas and Moodle import.

The one idea: a cell that a spreadsheet would run as a formula is made text, and a grade that we
do not know stays empty.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attncourse.grading.roster import Learner, Pair

__all__ = ["canvas", "gradebook", "moodle", "safe_cell", "unmatched_rows"]

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "＝", "＋", "－", "＠")
# Where a comma writes decimals, a spreadsheet splits at semicolons, also between our quotes.
_LATER = re.compile(r"""([;\t][ "]*)(?=[=+\-@|＝＋－＠])""")


def safe_cell(value: Any) -> str:
    """Return a cell's text that no spreadsheet takes for a formula.

    Examples
    --------
    >>> safe_cell("=HYPERLINK(1)"), safe_cell("2.5"), safe_cell(None)
    ("'=HYPERLINK(1)", '2.5', '')
    >>> safe_cell("a;=1+1")
    "a;'=1+1"
    """
    text = "" if value is None else str(value)
    text = " ".join(text.replace("\0", "").splitlines()) if text.strip() else ""
    text = _LATER.sub(r"\1'", text)
    return f"'{text}" if text.lstrip(" '\"").startswith(_FORMULA) else text


def _table(rows: Iterable[Sequence[Any]]) -> str:
    """Write rows as CSV."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerows([safe_cell(cell) for cell in row] for row in rows)
    return target.getvalue()


def _learner(pair: Pair) -> Learner:
    """Return who it is, as far as is known."""
    return pair.learner or Learner(pair.student)


def gradebook(results: Mapping[str, Any], pairs: Mapping[str, Pair], exercise: Any) -> str:
    """Return `gradebook.csv`: a row per student, a column per question.

    Parameters
    ----------
    results : mapping of str to dict
        See `attncourse.grading.grade.grade`.
    pairs : mapping of str to Pair
        Who is who.
    exercise : Exercise
        For the columns.

    Returns
    -------
    str
        Sorted by student. Points of a `grader_error` are empty.
    """
    questions = [question.id for question in exercise.questions]
    head = [
        "id",
        "name",
        "email",
        "on_roster",
        "status",
        "late_seconds",
        "points",
        "max",
        *questions,
    ]
    rows: list[list[Any]] = [[*head, "isolation", "message"]]
    for student, result in results.items():
        learner = _learner(pairs[student])
        points = {entry["id"]: entry["points"] for entry in result["questions"]}
        known = "yes" if result["on_roster"] else "no"
        row = [
            student,
            learner.name,
            learner.email,
            known,
            result["status"],
            result["late_seconds"],
        ]
        row += [result["points"], result["max"], *(points.get(name) for name in questions)]
        rows.append([*row, result["isolation"], result["message"][-300:]])
    return _table(rows)


def unmatched_rows(rows: Sequence[Sequence[str]]) -> str:
    """Return `unmatched.csv`: what `attncourse.grading.roster.unmatched` lists."""
    return _table([("kind", "who", "why"), *rows])


def canvas(results: Mapping[str, Any], pairs: Mapping[str, Pair], exercise: Any) -> str:
    """Return what *Grades, Import* of Canvas takes; who is not on the roster stays out."""
    title = f"{exercise.title} ({exercise.id})"
    rows: list[list[Any]] = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", title]]
    total = next((result["max"] for result in results.values()), "")
    rows.append(["Points Possible", "", "", "", "", total])
    for student, result in results.items():
        learner = _learner(pairs[student])
        if result["on_roster"]:
            name = learner.name or student
            rows.append([name, learner.canvas_id, student, learner.email, "", result["points"]])
    return _table(rows)


def moodle(results: Mapping[str, Any], pairs: Mapping[str, Pair], exercise: Any) -> str:
    """Return what *Grades, Import, CSV file* of Moodle takes; matched by e-mail or ID number."""
    title = f"{exercise.title} ({exercise.id})"
    rows: list[list[Any]] = [
        ["ID number", "Full name", "Email address", title, "Feedback comments"]
    ]
    for student, result in results.items():
        learner = _learner(pairs[student])
        if result["on_roster"]:
            comment = f"{result['status']}: {result['points']} of {result['max']} points"
            comment = "being looked at" if result["points"] is None else comment
            rows.append([student, learner.name, learner.email, result["points"], comment])
    return _table(rows)
