"""The instant check: an exercise's public tests, run on the names of the notebook.

The one idea: one call, no files beside the notebook, no network. `Exercise("03").check("q1")` finds
the caller's functions, runs the tests, and answers with a report that says what to do next.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from attncourse.grading.exercise import ExerciseError, load
from attncourse.grading.feedback import Report, Row
from attncourse.grading.points import exact

__all__ = ["CheckFailed", "Exercise"]

RAISES = "ATTNCOURSE_CHECK_RAISES"
SLACK = 15.0  # seconds that a check may take beyond what the grader allows the question


class CheckFailed(AssertionError):
    """A check that was asked to raise did not pass; the message is the whole report."""


class Exercise:
    """An exercise, as a learner's notebook uses it.

    Parameters
    ----------
    name : str or path
        Its id, its number or its folder.
    hints : int
        How many hints are open when a test fails for the first time.

    Examples
    --------
    In a notebook: ``exercise = Exercise("03_query_key_value")``, then ``exercise.check("q1")``.
    """

    def __init__(self, name: str | os.PathLike[str], hints: int = 1) -> None:
        self.spec, self._hints = load(name), max(1, hints)
        self._failures: dict[str, int] = {}
        self._seen: dict[str, int] = {}  # what the code behind each question was at its last check

    def __repr__(self) -> str:
        """Name the exercise and its questions."""
        names = ", ".join(question.id for question in self.spec.questions)
        return f"Exercise {self.spec.id}: {self.spec.title} ({names})"

    def check(
        self,
        question: str,
        *,
        raises: bool | None = None,
        namespace: Mapping[str, Any] | None = None,
    ) -> Report:
        """Run the public tests of a question.

        Parameters
        ----------
        question : str
            Its id, such as `q1`.
        raises : bool, optional
            Raise `CheckFailed` if a test does not pass. By default only where the environment
            variable ATTNCOURSE_CHECK_RAISES is 1: when a notebook is run as a test.
        namespace : mapping, optional
            Where the functions are; the caller's global names by default.

        Returns
        -------
        Report
            Shows itself in a notebook and when printed.
        """
        names = sys._getframe(1).f_globals if namespace is None else namespace
        report = self._report(question, names)
        self._remember(report)
        if (os.environ.get(RAISES) == "1" if raises is None else raises) and not report.passed:
            raise CheckFailed(str(report))
        return report

    def progress(self) -> Any:
        """Return how far all exercises are; shows itself in a notebook and when printed."""
        from attncourse.grading.progress import Progress

        return Progress.read()

    def _report(self, question: str, names: Mapping[str, Any]) -> Report:
        """Run the tests and find the nearest mistakes."""
        try:
            from attncourse.grading import plugin
        except ModuleNotFoundError as error:
            text = f"{error.name} is missing; a check needs it: pip install pytest"
            raise ModuleNotFoundError(text, name=error.name) from None
        from attncourse.grading.local import LocalTransport
        from attncourse.grading.mistakes import nearest
        from attncourse.grading.own_code import borrowed, fingerprint

        asked = self.spec.question(question)
        limit = float(asked.seconds) + SLACK
        learner = LocalTransport(names, self.spec.callables, limit)
        found = plugin.run(self.spec.path / "tests" / "public", learner, select={question})
        if not found:
            raise ExerciseError(f"{self.spec.id} has no public test for {question}")
        called = {str(a.request.get("name")) for row in found for a in row.trace}
        code = fingerprint(names, called)
        changed = self._seen.get(question) != code
        self._seen[question] = code
        named = nearest(self.spec, found, learner)
        rows: list[Row] = []
        told: set[str] = set()
        for row in found:
            mistake = named.get(row.nodeid)
            again = mistake is not None and mistake.name in told
            rows.append(self._row(row, mistake, again, changed))
            told |= {mistake.name} if mistake is not None else set()
        lent = "" if self.spec.real_package else borrowed(names, called)
        return Report(question, asked.title, rows, exact(asked.points), lent)

    def _row(self, result: Any, mistake: Any, told: bool, changed: bool) -> Row:
        """Return a test's line; each failure of changed code opens one more hint.

        A mistake that an earlier test has named already is not told again.
        """
        passed = result.outcome == "passed"
        before = self._failures.get(result.nodeid, 0)
        tier = 0 if passed else max(before + (changed or not before), self._hints)
        self._failures[result.nodeid] = tier
        hints = [*(mistake.hints if mistake is not None else ()), *result.hints]
        return Row(
            title=result.title,
            points=exact(result.points),
            passed=passed,
            message=result.message,
            mistake=mistake.name if mistake is not None and not told else "",
            hints=() if told else tuple(hints[:tier]),
            more=0 if passed or told else max(0, len(hints) - tier),
        )

    def _remember(self, report: Report) -> None:
        """Note the result in the one progress file."""
        from attncourse.grading.progress import Progress

        Progress.note(self.spec.id, report)
