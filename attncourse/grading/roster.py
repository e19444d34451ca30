"""Join what was handed in with who is on the course.

The one idea: nobody is lost. A learner without a submission gets a row, a submission without a
learner gets one too, and both say so.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attncourse.grading.submissions import Submission, tidy

__all__ = ["Learner", "Pair", "RosterError", "join", "read_roster"]

COLUMNS = ("id", "name", "email", "canvas_id", "moodle_id")


class RosterError(ValueError):
    """A roster that cannot be read, or that names somebody twice."""


@dataclass(frozen=True)
class Learner:
    """One row of the roster.

    Parameters
    ----------
    id : str
        The name under which grades are filed.
    name, email, canvas_id, moodle_id : str
        As far as the roster has them.
    """

    id: str
    name: str = ""
    email: str = ""
    canvas_id: str = ""
    moodle_id: str = ""


@dataclass(frozen=True)
class Pair:
    """A learner and a submission; one of them may be missing.

    Parameters
    ----------
    student : str
        The name under which grades are filed.
    learner : Learner or None
        None if there is no such row.
    submission : Submission or None
        None if nothing was handed in.
    """

    student: str
    learner: Learner | None
    submission: Submission | None


def read_roster(path: str | os.PathLike[str]) -> list[Learner]:
    """Read a roster.

    Parameters
    ----------
    path : path
        A CSV file with a column `id` and, if you like, `name`, `email`, `canvas_id`, `moodle_id`.

    Returns
    -------
    list of Learner

    Raises
    ------
    RosterError
        If there is no such column, or an id is empty or stands there twice.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise RosterError(f"the roster {path} cannot be read: {error}") from None
    rows = csv.DictReader(text.splitlines())
    names = {str(name).strip().lower(): name for name in rows.fieldnames or ()}
    if "id" not in names:
        raise RosterError(
            f"the roster {path} has no column id; it has {', '.join(names) or 'none'}"
        )
    learners, seen = [], set()
    for row in rows:
        fields = {key: tidy(row.get(names[key]) or "") for key in COLUMNS if key in names}
        learner = Learner(**fields)
        if not learner.id or learner.id.casefold() in seen:
            raise RosterError(
                f"row {rows.line_num} of {path}: id {learner.id!r} is empty or twice there"
            )
        seen.add(learner.id.casefold())
        learners.append(learner)
    return learners


def _keys(learner: Learner) -> list[tuple[str, str]]:
    """Return by what a submission may be matched with a learner, the surest first."""
    name = learner.name.casefold()
    words = name.replace(",", " ").split()
    keys = [
        ("id", learner.id.casefold()),
        ("number", learner.canvas_id),
        ("number", learner.moodle_id),
    ]
    keys += [("id", name), ("id", "".join(words)), ("id", "".join([*words[-1:], *words[:-1]]))]
    return [(kind, text) for kind, text in keys if text]


def _match(
    submissions: Sequence[Submission], roster: Sequence[Learner]
) -> dict[int, list[Submission]]:
    """Return each learner's submissions, by the learner's place in the roster."""
    index: dict[tuple[str, str], set[int]] = {}
    for place, learner in enumerate(roster):
        for key in _keys(learner):
            index.setdefault(key, set()).add(place)
    found: dict[int, list[Submission]] = {}
    for one in submissions:
        by_name, by_number = ("id", one.student.casefold()), ("number", one.number)
        hits = [index.get(key, set()) for key in (by_number, by_name)]
        # Two learners of one name: a name alone decides nothing.
        place = next((next(iter(hit)) for hit in hits if len(hit) == 1), -1)
        found.setdefault(place, []).append(one)
    return found


def _age(one: Submission) -> tuple[float, int, str]:
    """Return a key that sorts the newest of one learner's submissions last."""
    return (one.modified.timestamp() if one.modified else 0.0, one.copy, one.inner)


def join(submissions: Sequence[Submission], roster: Sequence[Learner] | None) -> list[Pair]:
    """Match submissions with learners.

    Parameters
    ----------
    submissions : sequence of Submission
        From `find`.
    roster : sequence of Learner or None
        None: everybody who handed in is on the course.

    Returns
    -------
    list of Pair
        Sorted by the name under which grades are filed; every submission and every learner once.
    """
    found = _match(submissions, roster or ())
    pairs = []
    for place, learner in enumerate(roster or ()):
        own = sorted(found.get(place, []), key=_age)
        pairs.append(Pair(learner.id, learner, own.pop() if own else None))
        found.setdefault(-1, []).extend(own)
    taken = {pair.student.casefold() for pair in pairs}
    for one in found.get(-1, []):
        name = one.student or "unnamed"
        while name.casefold() in taken:
            name = f"{one.student} {one.number or one.inner}" if name == one.student else name + "+"
        taken.add(name.casefold())
        pairs.append(Pair(name, None, one))
    return sorted(pairs, key=lambda pair: pair.student.casefold())
