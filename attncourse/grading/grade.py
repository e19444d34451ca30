"""Grade one submission: the trusted process around one sandbox.

The one idea: three kinds of trouble are kept apart. What the learner's code does wrong costs
points; what its file is wrong in is said; what goes wrong on our side is never a 0 but an error
that a person has to look at.
"""

from __future__ import annotations

import copy
import platform
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from attncourse.grading.cells import Cell, InvalidNotebook, read_cells
from attncourse.grading.exercise import ExerciseError, Spec, load
from attncourse.grading.follow_through import follow
from attncourse.grading.points import exact, shown
from attncourse.grading.remote import SandboxTransport
from attncourse.grading.sandbox import Sandbox
from attncourse.grading.settings import Settings

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
    settings : Settings
        How.
    """

    student: str
    data: bytes
    settings: Settings


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
    exercise = load(job.settings.exercise)
    try:
        cells = read_cells(job.data, [q.id for q in exercise.questions], exercise.test_cells)
        result = _run(job, exercise, cells)
    except InvalidNotebook as error:
        result = blank(job.student, exercise, "invalid_notebook", str(error))
    except Exception as error:
        result = failed_result(job.student, exercise, error)
    result["isolation"] = job.settings.backend
    result["environment"] = environment()
    result["seconds"] = round(time.monotonic() - began, 3)
    return result


def _run(job: Job, exercise: Spec, cells: Sequence[Cell], *, again: bool = True) -> dict[str, Any]:
    """Run all tests against a fresh worker; once more if somebody else has killed one."""
    transport = _transport(job, exercise, cells)
    try:
        found = _tests(job, exercise, transport)
        named = _mistakes(exercise, found.get("public", []), transport)
    finally:
        transport.close()
    if transport.killed and again:
        return _run(job, exercise, cells, again=False)

    def once_more(mended: Sequence[Cell], question: str) -> dict[str, list[Any]]:
        """Run the tests of one question on other cells."""
        fresh = _transport(job, exercise, mended)
        try:
            return _tests(job, exercise, fresh, {question})
        finally:
            fresh.close()

    found = follow(exercise, cells, found, once_more)
    return _result(job, exercise, found, named, transport)


def _transport(job: Job, exercise: Spec, cells: Sequence[Cell]) -> SandboxTransport:
    """Return a transport to a fresh worker."""
    settings, isolation = job.settings, job.settings.isolation(exercise)
    return SandboxTransport(
        lambda: Sandbox(isolation, exercise.callables),
        cells,
        settings.budgets(exercise),
        settings.free(),
    )


def _tests(
    job: Job, exercise: Spec, transport: SandboxTransport, select: set[str] | None = None
) -> dict[str, list[Any]]:
    """Run the tests of both folders."""
    from attncourse.grading import plugin

    found: dict[str, list[Any]] = {}
    for folder in ("public", "hidden"):
        place = exercise.path / "tests" / folder
        if place.is_dir():
            found[folder] = plugin.run(place, transport, select=select, seed=job.settings.seed)
    if transport.broken:
        raise RuntimeError(transport.broken)
    return found


def _mistakes(exercise: Spec, public: list[Any], transport: SandboxTransport) -> dict[str, str]:
    """Return the names of known mistakes by test: a courtesy, which must never cost a grade."""
    from attncourse.grading.mistakes import nearest

    kept = copy.deepcopy((transport.accounts, transport.reports))
    try:
        found = nearest(exercise, public, transport)
        return {test: mistake.name for test, mistake in found.items()}
    except Exception:
        return {}
    finally:
        transport.accounts, transport.reports = kept


def _result(
    job: Job,
    exercise: Spec,
    found: dict[str, list[Any]],
    named: dict[str, str],
    transport: SandboxTransport,
) -> dict[str, Any]:
    """Add up what the tests found."""
    rows = [(folder == "hidden", row) for folder, tests in found.items() for row in tests]
    errors = [f"{row.nodeid}: {row.message}" for _, row in rows if row.outcome == "error"]
    if errors:
        raise ExerciseError("a test failed by its own fault: " + "; ".join(errors)[:3000])
    result = blank(job.student, exercise, "graded")
    known = {entry["id"] for entry in result["questions"]}
    strays = [f"{row.nodeid} ({row.question})" for _, row in rows if row.question not in known]
    if strays:
        raise ExerciseError(f"tests without a question of the exercise: {', '.join(strays)}")
    for entry in result["questions"]:
        account = transport.accounts[entry["id"]]
        own = [(hidden, row) for hidden, row in rows if row.question == entry["id"]]
        entry.update(_question(entry, own, named), status=account.status, notes=account.notes)
    result["points"] = shown(_total(entry["points"] for entry in result["questions"]))
    result["status"] = _worst(account.status for account in transport.accounts.values())
    result["message"] = _missing_modules(transport)
    result["cells"] = [
        {"cell": number, **report, "seconds": round(report["seconds"], 3)}
        for number, report in sorted(transport.reports.items())
    ]
    return result


def _missing_modules(transport: SandboxTransport) -> str:
    """Name the modules that the notebook wants and that are not here; empty if there are none."""
    return "; ".join(
        f"cell {number}: {line}"
        for number, report in sorted(transport.reports.items())
        for line in report["error"].splitlines()
        if line.startswith("ModuleNotFoundError")
    )[:600]


def _question(
    entry: dict[str, Any], rows: list[tuple[bool, Any]], named: dict[str, str]
) -> dict[str, Any]:
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
            "mistake": "" if hidden else named.get(row.nodeid, ""),
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
