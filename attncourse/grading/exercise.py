"""Find an exercise and read what its `exercise.toml` says.

The one idea: a folder is the exercise. This module reads the folder and checks it; it runs nothing.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attncourse._needs import need
from attncourse.grading.points import exact

__all__ = [
    "ExerciseError",
    "Question",
    "Spec",
    "folders",
    "load",
    "load_to_author",
    "load_to_grade",
]

SCHEMA = 1
_KNOWN = {
    "schema",
    "id",
    "title",
    "minutes",
    "questions",
    "callables",
    "sandbox",
    "late",
    "follow_through",
}
_PACKAGE = Path(__file__).resolve().parents[1]


class ExerciseError(ValueError):
    """An exercise that cannot be used as it is; the message says what to change."""


@dataclass(frozen=True)
class Question:
    """One question.

    Parameters
    ----------
    id : str
        The grade id of its answer cell, such as `q1`.
    title : str
        What a learner reads above its result.
    points : str or int
        What its public and hidden tests offer together.
    seconds, memory_mb : float
        What its answer may use while it is graded.
    """

    id: str
    title: str
    points: Any
    seconds: float = 10.0
    memory_mb: float = 1024


@dataclass(frozen=True)
class Spec:
    """What an exercise's folder says about itself.

    Parameters
    ----------
    id, title : str
        The folder's name, and a heading.
    path : Path
        The folder.
    questions : list of Question
        In order.
    callables : dict of str to str
        Name that tests call -> `numpy` or `torch`, the arrays it is given.
    minutes : int
        How long it takes to do.
    late : dict or None
        `penalty_per_day` and `max_days`.
    real_package : bool
        Whether answers may use `attncourse` while they are graded.
    follow_through : bool
        Whether a right answer that builds on an earlier wrong one gets its points.
    free_seconds : float or None
        Time for each cell that belongs to no question; None: the grader's own.
    schema : int
        Version of the format.
    test_cells : frozenset of str
        Grade ids of the check cells of `source.ipynb`; empty where that file is not there.
    """

    id: str
    title: str
    path: Path
    questions: list[Question]
    callables: dict[str, str]
    minutes: int = 45
    late: dict[str, Any] | None = None
    real_package: bool = False
    free_seconds: float | None = None
    follow_through: bool = False
    schema: int = SCHEMA
    test_cells: frozenset[str] = field(default_factory=frozenset)

    def question(self, name: str) -> Question:
        """Return a question by its id, or say which there are."""
        for each in self.questions:
            if each.id == name:
                return each
        known = ", ".join(each.id for each in self.questions)
        raise ExerciseError(f"{self.id} has no question {name!r}; it has {known}")


def folders() -> list[Path]:
    """Return the folders in which exercises are looked for by name.

    Returns
    -------
    list of Path
        `$ATTNCOURSE_EXERCISES` first, then `exercises` in the current folder, then the installed
        package's, then the repository's.
    """
    own = os.environ.get("ATTNCOURSE_EXERCISES")
    places = [*([Path(own)] if own else []), Path("exercises")]
    places += [_PACKAGE / "exercises", _PACKAGE.parent / "exercises"]
    return [place for place in places if place.is_dir()]


def _find(where: str | os.PathLike[str]) -> Path:
    """Return the folder of an exercise that is named by path, by id or by its number."""
    if Path(where, "exercise.toml").is_file():
        return Path(where).resolve()
    name = str(where)
    files = [file for place in folders() for file in sorted(place.glob("*/exercise.toml"))]
    for file in files:
        if file.parent.name == name or file.parent.name.split("_")[0] == name:
            return file.parent.resolve()
    known = ", ".join(sorted({file.parent.name for file in files})) or "none are installed"
    raise ExerciseError(f"there is no exercise {name!r} (folder or id); known: {known}")


def load(where: str | os.PathLike[str]) -> Spec:
    """Read an exercise.

    Parameters
    ----------
    where : path or str
        Its folder, its id (`03_query_key_value`) or its number (`03`).

    Returns
    -------
    Spec

    Raises
    ------
    ExerciseError
        If there is none, or if `exercise.toml` is not as it should be.
    """
    path = _find(where)
    try:
        settings = tomllib.loads((path / "exercise.toml").read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ExerciseError(f"{path / 'exercise.toml'}: {error}") from None
    _check(settings, path)
    return Spec(
        id=settings["id"],
        title=settings["title"],
        path=path,
        questions=[Question(**each) for each in settings["questions"]],
        callables=dict(settings["callables"]),
        minutes=settings.get("minutes", 45),
        late=settings.get("late"),
        real_package=bool(settings.get("sandbox", {}).get("attncourse", False)),
        free_seconds=settings.get("sandbox", {}).get("free_seconds"),
        follow_through=settings.get("follow_through", False),
        test_cells=_test_cells(path / "source.ipynb"),
    )


def load_to_grade(where: str | os.PathLike[str]) -> Spec:
    """Read an exercise that can be graded: one whose hidden tests are here.

    Parameters
    ----------
    where : path or str
        As for `load`.

    Returns
    -------
    Spec

    Raises
    ------
    ExerciseError
        If `tests/hidden` holds no test, as in the package that learners install.
    """
    need("IPython", "pytest")
    spec = load(where)
    if not any((spec.path / "tests" / "hidden").glob("**/test_*.py")):
        raise ExerciseError(
            f"{spec.id} has no hidden tests in {spec.path}, so it cannot be graded here; the "
            "package that learners install leaves them out: clone the repository and name its "
            f"folder exercises/{spec.id}, or give your own tests with --private-dir"
        )
    return spec


def load_to_author(where: str | os.PathLike[str]) -> Spec:
    """Read an exercise that can be linted, built and proved: one whose source is here.

    Parameters
    ----------
    where : path or str
        As for `load`.

    Returns
    -------
    Spec

    Raises
    ------
    ExerciseError
        If `source.ipynb` is missing, as in the package that learners install.
    """
    need("pytest")
    spec = load(where)
    if not (spec.path / "source.ipynb").is_file():
        raise ExerciseError(
            f"{spec.id} has no source.ipynb in {spec.path}; the package that learners install "
            f"leaves it out: clone the repository and name its folder exercises/{spec.id}"
        )
    return spec


def _check(settings: dict[str, Any], path: Path) -> None:
    """Raise at the first thing in `exercise.toml` that is missing, unknown or impossible."""
    place = f"{path / 'exercise.toml'}:"
    if settings.get("schema") != SCHEMA:
        raise ExerciseError(
            f"{place} schema is {settings.get('schema')!r}, this version reads {SCHEMA}"
        )
    for key in ("id", "title", "questions", "callables"):
        if not settings.get(key):
            raise ExerciseError(f"{place} {key} is missing or empty")
    if unknown := set(settings) - _KNOWN:
        raise ExerciseError(f"{place} unknown settings: {', '.join(sorted(unknown))}")
    if not re.fullmatch(r"\w+", str(settings["id"])):
        raise ExerciseError(f"{place} id must be letters, digits and _, got {settings['id']!r}")
    free = settings.get("sandbox", {}).get("free_seconds", 1)
    if not isinstance(free, (int, float)) or not 0 < free <= 86_400:
        raise ExerciseError(f"{place} free_seconds must be from 0 to 86400, got {free!r}")
    if not isinstance(settings.get("follow_through", False), bool):
        raise ExerciseError(
            f"{place} follow_through must be true or false, got {settings['follow_through']!r}"
        )
    for name, library in settings["callables"].items():
        if library not in ("numpy", "torch"):
            raise ExerciseError(f"{place} {name} must be 'numpy' or 'torch', got {library!r}")
    for each in settings["questions"]:
        _check_question(each, place)
    names = [each["id"] for each in settings["questions"]]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ExerciseError(f"{place} question ids must differ, twice: {', '.join(sorted(twice))}")


def _check_question(entry: dict[str, Any], place: str) -> None:
    """Raise if a question lacks something, or offers something impossible."""
    for key in ("id", "title", "points"):
        if key not in entry:
            raise ExerciseError(f"{place} a question has no {key}: {entry}")
    if unknown := set(entry) - set(Question.__dataclass_fields__):
        raise ExerciseError(f"{place} {entry['id']}: unknown: {', '.join(sorted(unknown))}")
    try:
        points = exact(entry["points"])
    except (ValueError, ZeroDivisionError):
        raise ExerciseError(
            f"{place} {entry['id']}: points must be a number, got {entry['points']!r}"
        ) from None
    if points <= 0 or entry.get("seconds", 1) <= 0 or entry.get("memory_mb", 1) <= 0:
        raise ExerciseError(f"{place} {entry['id']}: points, seconds and memory_mb must be > 0")


def _test_cells(source: Path) -> frozenset[str]:
    """Return the grade ids of the check cells."""
    if not source.is_file():
        return frozenset()
    try:
        cells = json.loads(source.read_text(encoding="utf-8"))["cells"]
        marks = [cell["metadata"].get("nbgrader", {}) for cell in cells]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExerciseError(f"{source} is no notebook: {type(error).__name__}: {error}") from None
    return frozenset(m["grade_id"] for m in marks if m.get("grade") and not m.get("solution"))
