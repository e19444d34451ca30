"""What a learner reads after a check: the same report as text and as HTML.

The one idea: three lines per failed test: what was wanted and what came, which known mistake gives
the same output, and one hint. The next hint opens when the test fails again.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from fractions import Fraction

from attncourse.grading.points import shown
from attncourse.notebook.markup import Html, element, join

__all__ = ["Report", "Row"]

WIDTH = 79
_EMPTY = "NotImplementedError"
_STYLE = "border-left:4px solid {};padding:.3em .8em;margin:.4em 0;font-size:95%"
_GREEN, _RED = "#009E73", "#D55E00"


@dataclass(frozen=True)
class Row:
    """One test.

    Parameters
    ----------
    title : str
        What it checks.
    points : Fraction
        What it is worth.
    passed : bool
        Whether it passed.
    message : str
        What was wanted and what came.
    mistake : str
        Name of the known mistake whose output is the same.
    hints : tuple of str
        Those that are open.
    more : int
        How many hints are still closed.
    """

    title: str
    points: Fraction
    passed: bool
    message: str = ""
    mistake: str = ""
    hints: tuple[str, ...] = ()
    more: int = 0

    def lines(self) -> list[tuple[str, str]]:
        """Return what to say about a failed test, as (label, text) pairs."""
        remarks = [("", self.message)]
        if self.mistake:
            remarks.append(("Known mistake", f"your output equals “{self.mistake}”."))
        remarks += [("Hint", hint) for hint in self.hints]
        if self.more:
            remarks.append(
                ("", f"Change your answer and check again for another hint ({self.more} left).")
            )
        return [(label, text) for label, text in remarks if text]


@dataclass(frozen=True)
class Report:
    """The result of a check.

    Parameters
    ----------
    question, title : str
        Id and title of the question.
    rows : list of Row
        Its public tests.
    total : Fraction
        Points of the question, hidden tests included.
    borrowed : str
        Module that the answer needs, and that is not there when it is graded.
    """

    question: str
    title: str
    rows: list[Row]
    total: Fraction
    borrowed: str = ""

    @property
    def passed(self) -> bool:
        """Whether every public test passed, with the learner's own code."""
        return all(row.passed for row in self.rows) and not self.borrowed

    @property
    def points(self) -> Fraction:
        """Points gained so far."""
        if self.borrowed:
            return Fraction(0)
        return sum((row.points for row in self.rows if row.passed), Fraction(0))

    @property
    def offered(self) -> Fraction:
        """Points that the public tests offer."""
        return sum((row.points for row in self.rows), Fraction(0))

    @property
    def blank(self) -> bool:
        """Whether nothing has been written yet."""
        return all(not row.passed and row.message.startswith(_EMPTY) for row in self.rows)

    def headline(self) -> str:
        """Return the first line."""
        gained = f"{shown(self.points)} of {shown(self.offered)} points of the public tests"
        return f"{self.question} {self.title}: {gained}"

    def closing(self) -> str:
        """Return the last line: what to do next."""
        if self.blank:
            return "Nothing is written here yet: replace the line that raises the error."
        if self.borrowed:
            return (
                f"Your answer uses {self.borrowed}, which is not there when your work is graded: "
                "it would get no points. Write it yourself."
            )
        if not self.passed:
            return "Change your answer, run its cell, and check again."
        rest = self.total - self.offered
        if not rest:
            return "All tests passed."
        return f"All public tests passed. Hidden tests, worth {shown(rest)}, run when it is graded."

    def __str__(self) -> str:
        """Return the report as text."""
        lines = [self.headline()]
        for row in () if self.blank else self.rows:
            lines.append(f"  {'✓' if row.passed else '✗'} {row.title} ({shown(row.points)})")
            for label, text in () if row.passed else row.lines():
                lines += _wrapped(f"{label}: {text}" if label else text)
        return "\n".join([*lines, *textwrap.wrap(self.closing(), WIDTH)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the report for a notebook."""
        color = _GREEN if self.passed else _RED
        rows = () if self.blank else map(_row_html, self.rows)
        head, closing = element("b", self.headline()), element("div", self.closing())
        return element("div", head, *rows, closing, role="status", style=_STYLE.format(color))


def _wrapped(text: str) -> list[str]:
    """Return a text as indented lines; lines of a table stay lines."""
    parts = [part for part in text.splitlines() if part.strip()]
    indent = " " * 6
    return [
        line
        for part in parts
        for line in textwrap.wrap(part, WIDTH, initial_indent=indent, subsequent_indent=indent)
    ]


def _row_html(row: Row) -> Html:
    """Return one test for a notebook."""
    sign, color = ("✓", _GREEN) if row.passed else ("✗", _RED)
    mark = element("span", sign, style=f"color:{color};font-weight:bold")
    remarks = () if row.passed else (_line_html(*line) for line in row.lines())
    head = join(mark, f" {row.title} ({shown(row.points)})")
    return element("div", head, *remarks, style="margin:.3em 0")


def _line_html(label: str, text: str) -> Html:
    """Return one remark for a notebook."""
    bold = join(element("b", f"{label}:"), " ") if label else ""
    return element("div", bold, text, style="margin-left:1.4em;white-space:pre-line")
