"""How far a learner is, over all exercises, in one small local file.

The one idea: each check notes its result; nothing leaves the machine. The file is
`~/.attncourse/progress.json`, or what $ATTNCOURSE_PROGRESS names (`off`: keep nothing).
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from attncourse.grading.exercise import ExerciseError, folders, load
from attncourse.grading.points import exact, shown
from attncourse.notebook.markup import Html, element

__all__ = ["Progress", "progress_file"]

BAR = 20


def progress_file() -> Path | None:
    """Return where progress is kept; None if it is kept nowhere."""
    name = os.environ.get("ATTNCOURSE_PROGRESS")
    if name == "off":
        return None
    return Path(name) if name else Path.home() / ".attncourse" / "progress.json"


def _load(file: Path | None) -> dict[str, Any]:
    """Return what is noted; a file that cannot be read counts as empty."""
    try:
        noted = json.loads(file.read_text(encoding="utf-8")) if file else {}
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}


@dataclass(frozen=True)
class Progress:
    """Points of the public tests, exercise by exercise.

    Parameters
    ----------
    rows : list of (str, str, Fraction, Fraction)
        Id, title, points gained, points offered by the checks so far or by the whole exercise.
    """

    rows: list[tuple[str, str, Fraction, Fraction]]

    @classmethod
    def note(cls, exercise: str, report: Any) -> None:
        """Note the result of a check; a best result is kept; a full disk disturbs nobody."""
        file = progress_file()
        if file is None:
            return
        noted = _load(file)
        if not isinstance(noted.get(exercise), dict):
            noted[exercise] = {}
        before = noted[exercise].get(report.question, {})
        best = max(report.points, _points(before))
        noted[exercise][report.question] = {"points": shown(best), "max": shown(report.offered)}
        with contextlib.suppress(OSError):
            _write(file, json.dumps(noted, indent=1, sort_keys=True) + "\n")

    @classmethod
    def read(cls) -> Progress:
        """Return the progress of every exercise that is installed."""
        noted, rows = _load(progress_file()), []
        places = {file.parent.name: file.parent for p in folders() for file in p.glob("*/*.toml")}
        for name in sorted(places):
            try:
                spec = load(places[name])
            except ExerciseError:
                continue
            found = noted.get(name)
            marks = found if isinstance(found, dict) else {}
            done = [marks.get(question.id) for question in spec.questions]
            solved = sum((_points(m) == _points(m, "max") > 0 for m in done), 0)
            rows.append((name, spec.title, Fraction(solved), Fraction(len(done))))
        return cls(rows)

    def __str__(self) -> str:
        """Return a bar for each exercise."""
        lines = ["Questions whose public tests all pass"]
        for name, _, solved, total in self.rows:
            filled = int(BAR * solved / total)
            lines.append(f"  {name:<26}{'█' * filled}{'·' * (BAR - filled)} {solved} of {total}")
        return "\n".join(lines if self.rows else ["no exercises are installed"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return a bar for each exercise, for a notebook."""
        rows = [
            element(
                "tr",
                element("td", name, style="text-align:left"),
                element("td", _bar(title, solved, total)),
                element("td", f"{solved} of {total}"),
            )
            for name, title, solved, total in self.rows
        ]
        caption = element("caption", "Questions whose public tests all pass")
        return element("table", caption, *rows, style="color:inherit")


def _bar(title: str, solved: Fraction, total: Fraction) -> Html:
    """Return a bar for a notebook."""
    return element("progress", max=str(total), value=str(solved), **{"aria-label": title})


def _points(mark: Any, key: str = "points") -> Fraction:
    """Return noted points; 0 for anything odd, since the file may have been edited."""
    try:
        return exact(mark[key])
    except (TypeError, KeyError, ValueError, ZeroDivisionError):
        return Fraction(0)


def _write(file: Path, text: str) -> None:
    """Replace a file in one step."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".progress-")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    Path(name).replace(file)
