"""Join what was handed in with who is on the course.

The one idea: nobody is lost and nothing is guessed. A learner without a submission gets a row, a
submission without a learner gets one too, and where two submissions claim one learner, or one
submission two learners, none is graded and both are named.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attncourse.grading.submissions import Submission, tidy

__all__ = ["Learner", "Pair", "RosterError", "join", "read_roster", "unmatched"]

COLUMNS = ("id", "name", "email", "canvas_id", "moodle_id")
# Column of ours -> what the exports of Canvas and Moodle call it, the surest first.
_ELSEWHERE = {
    "id": ("sis user id", "id number", "sis login id", "username", "email address"),
    "name": ("student", "full name"),
    "email": ("email address",),
    "moodle_id": ("identifier",),
}
_NOBODY = ("points possible", "student, test", "test student")


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
    problem : str
        Why nothing is graded although something was handed in; empty if it is.
    """

    student: str
    learner: Learner | None
    submission: Submission | None
    problem: str = ""


def read_roster(path: str | os.PathLike[str]) -> list[Learner]:
    """Read a roster.

    Parameters
    ----------
    path : path
        A CSV file with a column `id` and, if you like, `name`, `email`, `canvas_id`, `moodle_id`;
        or what Canvas (*Grades, Export*) and Moodle (grading worksheet, participants) export.

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
    except UnicodeDecodeError:
        raise RosterError(f"the roster {path} is not UTF-8: save it as CSV UTF-8") from None
    except OSError as error:
        raise RosterError(f"the roster {path} cannot be read: {error}") from None
    head = text.partition("\n")[0]
    rows = csv.DictReader(
        io.StringIO(text, newline=""), delimiter=";" if head.count(";") > head.count(",") else ","
    )
    names = {str(name).strip().lower(): name for name in rows.fieldnames or ()}
    canvas = "sis user id" in names
    if not canvas and "id" not in names and not any(key in names for key in _ELSEWHERE["id"]):
        raise RosterError(
            f"the roster {path} has no column id; it has {', '.join(names) or 'none'}"
        )
    learners, seen = [], set()
    for row in rows:
        learner = _learner({key: tidy(row.get(name) or "") for key, name in names.items()}, canvas)
        if learner.name.casefold() in _NOBODY or not any(filter(None, row.values())):
            continue
        if not learner.id or learner.id.casefold() in seen:
            raise RosterError(
                f"row {rows.line_num} of {path}: id {learner.id!r} is empty or twice there"
            )
        seen.add(learner.id.casefold())
        learners.append(learner)
    return learners


def _learner(row: Mapping[str, str], canvas: bool) -> Learner:
    """Return a row's learner; `id` means the platform's own number in a Canvas export."""
    fields = {key: "" if canvas and key == "id" else row.get(key, "") for key in COLUMNS}
    for key, others in _ELSEWHERE.items():
        fields[key] = fields[key] or next((row[o] for o in others if row.get(o)), "")
    if canvas:
        fields["canvas_id"] = row.get("id", "")
        fields["id"] = fields["id"] or fields["canvas_id"]
        login = row.get("sis login id", "")
        fields["email"] = fields["email"] or (login if "@" in login else "")
    if not fields["name"]:
        parts = (row.get("first name", ""), row.get("last name", "") or row.get("surname", ""))
        fields["name"] = " ".join(filter(None, parts))
    if found := re.search(r"\d+$", fields["moodle_id"]):  # "Participant 201"
        fields["moodle_id"] = found[0]
    return Learner(**fields)


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


def _claims(one: Submission, index: Mapping[tuple[str, str], set[int]]) -> set[int]:
    """Return the places in the roster that a submission claims by its number and by its name."""
    number = index.get(("number", one.number), set()) if one.number else set()
    name = index.get(("id", one.student.casefold()), set())
    if len(number) == 1:
        return number if number <= name or len(name) != 1 else number | name
    # Two learners of one name: a name alone decides nothing.
    return name if len(name) == 1 else set()


def _shown(one: Submission) -> str:
    """Return a submission's file, as an instructor looks for it."""
    return repr(one.inner)


def _is_stray(one: Submission) -> bool:
    """Tell a file that lies about, such as a script beside the notebooks, from a submission."""
    return not (one.inner.lower().endswith(".ipynb") or one.number or "/" in one.inner)


def _strangers(found: Sequence[tuple[Submission, str]], taken: set[str]) -> list[Pair]:
    """Return a row for each submission that belongs to nobody, under a name of its own."""
    pairs = []
    for one, problem in found:
        name = one.student or "unnamed"
        while name.casefold() in taken:
            name = f"{one.student} {one.number or one.inner}" if name == one.student else name + "+"
        taken.add(name.casefold())
        pairs.append(Pair(name, None, one, problem))
    return pairs


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
        Sorted by the name under which grades are filed; every learner once, and every submission
        that is no part of a conflict. A conflict is told in `problem`, with all files. What is no
        notebook, stands in no folder and bears nobody's name is left out.
    """
    learners = list(roster or ())
    index: dict[tuple[str, str], set[int]] = {}
    for place, learner in enumerate(learners):
        for key in _keys(learner):
            index.setdefault(key, set()).add(place)
    own: dict[int, list[Submission]] = {}
    strange: list[tuple[Submission, str]] = []
    for one in submissions:
        claims = _claims(one, index)
        if len(claims) == 1:
            own.setdefault(next(iter(claims)), []).append(one)
            continue
        if not claims and _is_stray(one):
            continue
        who = " and ".join(sorted(learners[place].id for place in claims))
        problem = f"{_shown(one)} has the number of one learner and the name of another: {who}"
        strange.append((one, problem if claims else ""))
    pairs = []
    for place, learner in enumerate(learners):
        files = own.get(place, [])
        problem = (
            f"{len(files)} submissions claim to be of {learner.id}: "
            f"{', '.join(map(_shown, files))}; keep one of them"
            if len(files) > 1
            else ""
        )
        pairs.append(Pair(learner.id, learner, files[0] if files else None, problem))
    pairs += _strangers(strange, {pair.student.casefold() for pair in pairs})
    return sorted(pairs, key=lambda pair: pair.student.casefold())


def unmatched(pairs: Sequence[Pair]) -> list[tuple[str, str, str]]:
    """List what has no partner: (kind, who, why), for a person to put right.

    Parameters
    ----------
    pairs : sequence of Pair
        From `join` with a roster.

    Returns
    -------
    list of (str, str, str)
        Conflicts first, then submissions without a learner, then learners without a submission.
    """
    rows = [("conflict", pair.student, pair.problem) for pair in pairs if pair.problem]
    rows += [
        ("not on the roster", pair.student, pair.submission.inner)
        for pair in pairs
        if pair.learner is None and pair.submission and not pair.problem
    ]
    return rows + [("nothing matched", p.student, "") for p in pairs if p.submission is None]
