"""Grade one submission: the trusted process around one sandbox.

The one idea: three kinds of trouble are kept apart. What the learner's code does wrong costs
points; what its file is wrong in is said; what goes wrong on our side is never a 0 but an error
that a person has to look at.
"""

from __future__ import annotations

import contextlib
import platform
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from attncourse.grading.backends import Walls
from attncourse.grading.cells import InvalidNotebook, read_cells
from attncourse.grading.exercise import ExerciseError, load
from attncourse.grading.points import exact, shown
from attncourse.grading.remote import RemoteStudent
from attncourse.grading.sandbox import Sandbox

__all__ = ["SCHEMA", "Job", "blank", "environment", "failed_result", "grade"]

SCHEMA = 1
_PACKAGES = ("numpy", "torch", "ipython", "pytest", "attncourse")


@dataclass(frozen=True)
class Job:
    """All that is needed to grade one submission, here or on another machine.

    Parameters
    ----------
    student : str
        The name under which the grade is filed.
    data : bytes
        The notebook.
    exercise : str
        Folder of the exercise.
    walls : Walls
        How the worker is shut in.
    seed : int or None
        Secret of the course, from which hidden tests may draw their inputs.
    free_seconds : float
        Time for all cells that belong to no question.
    time_factor : float
        Multiplies all time limits: for a slow machine.
    """

    student: str
    data: bytes
    exercise: str
    walls: Walls
    seed: int | None = None
    free_seconds: float = 30.0
    time_factor: float = 1.0


def environment() -> dict[str, str]:
    """Return the versions on which a grade depends."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def blank(student: str, exercise: Any, status: str, message: str = "") -> dict[str, Any]:
    """Return the result of a submission of which nothing could be run.

    Parameters
    ----------
    student : str
        The name under which it is filed.
    exercise : Exercise
        Its questions give the points that were to be had.
    status : str
        `missing`, `invalid_notebook` or `grader_error`; only the last one has no points at all.
    message : str
        What a person should read.

    Returns
    -------
    dict
        See `grade`.
    """
    none = status == "grader_error"
    questions = [
        {
            "id": question.id,
            "title": question.title,
            "status": status,
            "points": None if none else "0",
            "max": shown(exact(question.points)),
            "notes": [],
            "tests": [],
        }
        for question in exercise.questions
    ]
    total = sum((exact(question.points) for question in exercise.questions), Fraction(0))
    return {
        "schema": SCHEMA,
        "student": student,
        "exercise": exercise.id,
        "status": status,
        "message": message,
        "points": None if none else "0",
        "max": shown(total),
        "questions": questions,
        "cells": [],
    }


def failed_result(student: str, exercise: Any, error: BaseException) -> dict[str, Any]:
    """Return the result of a submission on which the grader itself failed."""
    text = "".join(traceback.format_exception(error))[-4000:]
    return blank(student, exercise, "grader_error", text)


def grade(job: Job) -> dict[str, Any]:
    """Grade one submission.

    Parameters
    ----------
    job : Job
        What to grade.

    Returns
    -------
    dict
        What is filed as `results/<student>.json`: `status`, `points`, `max`, and for each question
        its status, points and tests. Points are decimal numbers as text, so that they stay exact.
    """
    began = time.monotonic()
    exercise = load(job.exercise)
    try:
        cells = read_cells(job.data, [q.id for q in exercise.questions], exercise.test_cells)
        result = _run(job, exercise, cells)
    except InvalidNotebook as error:
        result = blank(job.student, exercise, "invalid_notebook", str(error))
    except Exception as error:
        result = failed_result(job.student, exercise, error)
    result["isolation"] = job.walls.backend
    result["environment"] = environment()
    result["seconds"] = round(time.monotonic() - began, 3)
    return result


def _run(job: Job, exercise: Any, cells: Sequence[Any]) -> dict[str, Any]:
    """Run all tests against a fresh worker."""
    from attncourse.grading import plugin
    from attncourse.grading.mistakes import nearest

    budgets = {q.id: float(q.seconds) * job.time_factor for q in exercise.questions}
    free = job.free_seconds * job.time_factor
    student = RemoteStudent(lambda: Sandbox(job.walls, exercise.callables), cells, budgets, free)
    rows: list[tuple[bool, Any]] = []
    try:
        for folder in ("public", "hidden"):
            place = exercise.path / "tests" / folder
            if place.is_dir():
                found = plugin.run(place, student, seed=job.seed)
                if folder == "public":
                    # A name for the mistake is a courtesy: it must never cost a grade.
                    with contextlib.suppress(Exception):
                        nearest(exercise, found)
                rows += [(folder == "hidden", row) for row in found]
    finally:
        student._close()
    if student._broken:
        raise RuntimeError(student._broken)
    return _result(job, exercise, rows, student)


def _result(job: Job, exercise: Any, rows: list[tuple[bool, Any]], student: Any) -> dict[str, Any]:
    """Add up what the tests found."""
    errors = [f"{row.nodeid}: {row.message}" for _, row in rows if row.outcome == "error"]
    if errors:
        raise ExerciseError("a test failed by its own fault: " + "; ".join(errors)[:3000])
    result = blank(job.student, exercise, "graded")
    known = {entry["id"] for entry in result["questions"]}
    strays = [f"{row.nodeid} ({row.question})" for _, row in rows if row.question not in known]
    if strays:
        raise ExerciseError(f"tests without a question of the exercise: {', '.join(strays)}")
    for entry in result["questions"]:
        own = [(hidden, row) for hidden, row in rows if row.question == entry["id"]]
        account = student._statuses()[entry["id"]]
        entry.update(_question(entry, own), status=account.status, notes=account.notes)
    result["points"] = shown(_total(entry["points"] for entry in result["questions"]))
    result["status"] = _worst(account.status for account in student._statuses().values())
    result["cells"] = [{"cell": n, **report} for n, report in sorted(student._reports.items())]
    for report in result["cells"]:
        report["seconds"] = round(report["seconds"], 3)
    return result


def _question(entry: dict[str, Any], rows: list[tuple[bool, Any]]) -> dict[str, Any]:
    """Return the points and the tests of one question."""
    offered = _total(row.points for _, row in rows)
    if offered != exact(entry["max"]):
        raise ExerciseError(
            f"the tests of {entry['id']} offer {shown(offered)} points, "
            f"exercise.toml says {entry['max']}"
        )
    gained = _total(row.points for _, row in rows if row.outcome == "passed")
    tests = [
        {
            "test": row.nodeid,
            "title": row.title,
            "hidden": hidden,
            "passed": row.outcome == "passed",
            "points": shown(exact(row.points) if row.outcome == "passed" else Fraction(0)),
            "max": shown(exact(row.points)),
            "message": row.message,
            "hints": list(row.hints),
            "mistake": row.mistake,
        }
        for hidden, row in rows
    ]
    return {"points": shown(gained), "tests": tests}


def _total(points: Iterable[Any]) -> Fraction:
    """Add points exactly."""
    return sum(map(exact, points), Fraction(0))


def _worst(statuses: Iterable[str]) -> str:
    """Return the status that a person should look at first."""
    found = set(statuses)
    return next((s for s in ("memory", "timeout", "died") if s in found), "graded")
