"""The process in which `attncourse check` runs a learner's file: it may hang, leave or crash.

The one idea: it says before each step that it begins, and after it what came of it. Who listens
knows from that what is missing when it ends.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import json
import os
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["main"]

_HIDDEN = "is not available while your work is graded"


class _NoAnswers(importlib.abc.MetaPathFinder):
    """Hide the course's own answers, as the grader does."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Refuse the modules of `attncourse` that are no part of grading."""
        if name.startswith("attncourse.") and not name.startswith("attncourse.grading"):
            raise ModuleNotFoundError(f"{name} {_HIDDEN}", name=name)


def _channel() -> tuple[dict[str, Any], Callable[..., None]]:
    """Read the order; return it and a function that tells; learner code gets neither pipe."""
    order = json.loads(sys.stdin.readline())
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)

    def tell(**message: Any) -> None:
        """Send one line."""
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    return order, tell


def _runner(file: str) -> tuple[dict[str, Any], Callable[[str, int], BaseException | None]]:
    """Return the learner's names, and a function that runs a cell and returns its error."""
    from attncourse.grading import running

    shell = None
    if not file.endswith(".py"):
        with contextlib.suppress(ImportError):
            from attncourse.grading.inside.shell import make_shell

            shell = make_shell()
    names: dict[str, Any] = {"__name__": "check"} if shell is None else shell.user_ns

    def run(source: str, number: int) -> BaseException | None:
        """Run a cell; it may end in any way that leaves the process alive."""
        try:
            if shell is None:
                running.run(source, names, file if file.endswith(".py") else f"<cell {number}>")
                return None
            shell.left_out.clear()
            with running.checks_do_nothing():
                result = shell.run_cell(source, silent=True, store_history=False)
            error = result.error_before_exec or result.error_in_exec
            if error is None and shell.left_out:
                return ModuleNotFoundError("; ".join(shell.left_out))
            return error
        except BaseException as error:
            return error

    return names, run


def _prepare(order: dict[str, Any]) -> Any:
    """Load the exercise and all that a check needs, then hide what has answers."""
    from attncourse.grading import compare, mistakes, plugin, progress
    from attncourse.grading.check import Exercise
    from attncourse.notebook import markup

    del markup, compare, mistakes, plugin, progress
    exercise = Exercise(order["exercise"], hints=order["hints"])
    if not exercise.spec.real_package:
        sys.meta_path.insert(0, _NoAnswers())
    return exercise


def main() -> None:
    """Run the cells, then the checks, telling of each."""
    order, tell = _channel()
    try:
        exercise = _prepare(order)
        names, run = _runner(order["file"])
        _run_cells(order, run, tell)
        for question in order["questions"]:
            if question not in order["skip"]:
                tell(step=question)
                text, passed = _checked(exercise, question, names)
                tell(step=question, text=text, passed=passed)
    except BaseException as error:
        tell(fault=f"{type(error).__name__}: {error}"[:2000])
    os._exit(0)  # what the learner's code left behind, threads for example, is not waited for


def _checked(exercise: Any, question: str, names: dict[str, Any]) -> tuple[str, bool]:
    """Check one question; return its report and whether it passed."""
    try:
        report = exercise.check(question, namespace=names, raises=False)
    except (KeyboardInterrupt, SystemExit) as error:
        return f"{question}: {type(error).__name__} came out of the answer", False
    return str(report), report.passed


def _run_cells(order: dict[str, Any], run: Callable[..., Any], tell: Callable[..., None]) -> None:
    """Run the cells that are not left out."""
    from attncourse.grading.inside.calls import failure
    from attncourse.grading.local import line_of

    for number, source in order["cells"]:
        if number not in order["skip"]:
            tell(step=number)
            error = run(source, number)
            text = "" if error is None else f"{failure(error)}{line_of(error)}"
            tell(step=number, text=text, passed=error is None)
