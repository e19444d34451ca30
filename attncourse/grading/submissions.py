"""Find every learner's notebook in a folder or a zip, as the learning platforms hand them out.

The one idea: file names and archives are hostile too. Nothing is unpacked to disk, no link is
followed, nothing but regular files of a bounded size is read, and a name is only ever a label.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

__all__ = ["MAX_BYTES", "Submission", "Unreadable", "find", "tidy"]

MAX_BYTES, MAX_FILES, MAX_DEPTH = 64 << 20, 100_000, 4
_CANVAS = re.compile(r"(?P<name>[^_]+)_(?P<late>LATE_)?(?P<number>\d+)_\d+_(?P<file>.+)", re.I)
_MOODLE = re.compile(r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_file(?:_(?P<file>.*))?")
# What is handed in by mistake in place of a notebook, where it does not stand in a folder.
_INSTEAD = (".py", ".html", ".pdf", ".zip", ".docx", ".ipynb.txt", ".ipynb.json")
_COPY = re.compile(r" ?\((\d+)\)$")
_CANVAS_COPY = re.compile(r"-(\d+)$")


class Unreadable(ValueError):
    """A submission that cannot be read; the message says why."""


@dataclass(frozen=True)
class Submission:
    """One learner's notebook, not read yet.

    Parameters
    ----------
    student : str
        Who, as far as the name says: the file's or the folder's.
    place : str
        The folder or the zip that was given.
    inner : str
        Path below it.
    number : str
        The platform's own number of the learner.
    modified : datetime or None
        When the file was changed, if its place tells.
    marked_late : bool
        The platform says that it came late.
    copy : int
        2 of `nb (2).ipynb`: later attempts have higher ones.
    others : tuple of str
        Files of the same learner that are not graded.
    told : bool
        The platform says of each file whether it came late: its time of change tells nothing.
    """

    student: str
    place: str
    inner: str
    number: str = ""
    modified: datetime | None = None
    marked_late: bool = False
    copy: int = 0
    others: tuple[str, ...] = ()
    told: bool = False

    def read(self, limit: int = MAX_BYTES) -> bytes:
        """Return the file's bytes.

        Raises
        ------
        Unreadable
            If it is no notebook, too large, no regular file, encrypted or damaged.
        """
        if not self.inner.lower().endswith(".ipynb"):
            more = f" and {len(self.others)} more" if self.others else ""
            raise Unreadable(f"no notebook (.ipynb) was handed in, but {self.inner}{more}")
        if os.path.isdir(self.place):
            return _read_file(Path(self.place) / self.inner, limit)
        return _read_entry(self.place, self.inner, limit)


def tidy(name: str) -> str:
    """Return a name in one spelling: composed characters, single spaces, nothing unprintable."""
    text = unicodedata.normalize("NFC", name.replace("\t", " ").replace("\n", " "))
    return " ".join("".join(c for c in text if c.isprintable()).split())[:120]


def _read_file(path: Path, limit: int) -> bytes:
    """Read a regular file without following a link or waiting for a pipe."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        reason = "it is a link" if path.is_symlink() else error.strerror
        raise Unreadable(f"the file cannot be opened: {reason}") from None
    with os.fdopen(number, "rb") as source:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise Unreadable("it is not a regular file")
        return _bounded(source.read(limit + 1), limit)


def _read_entry(place: str, inner: str, limit: int) -> bytes:
    """Read a file inside a zip, whatever the zip says about its size."""
    try:
        with zipfile.ZipFile(place) as archive:
            entry = archive.getinfo(inner)
            if entry.flag_bits & 1:
                raise Unreadable("the file in the zip is encrypted")
            if stat.S_ISLNK(entry.external_attr >> 16):
                raise Unreadable("the file in the zip is a link")
            with archive.open(entry) as source:
                return _bounded(source.read(limit + 1), limit)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, ValueError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable(f"the file in the zip cannot be read: {error}") from None


def _bounded(data: bytes, limit: int) -> bytes:
    """Return the data unless there is too much of it."""
    if len(data) > limit:
        raise Unreadable(
            f"the file is larger than {limit >> 20} MB: clear the notebook's outputs and hand it "
            "in again (an instructor can read larger ones with --max-mb)"
        )
    return data


def _folder_files(top: Path) -> Iterator[tuple[str, datetime | None]]:
    """Yield (path below, time of change) of a folder's files; links to folders are not followed."""
    for root, folders, files in os.walk(top, followlinks=False):
        below = PurePosixPath(Path(root).relative_to(top).as_posix())
        folders[:] = [] if len(below.parts) >= MAX_DEPTH else sorted(folders)
        for name in sorted(files):
            seconds = os.lstat(os.path.join(root, name)).st_mtime
            yield str(below / name), datetime.fromtimestamp(seconds, UTC)


def _zip_files(place: Path) -> Iterator[tuple[str, None]]:
    """Yield the names in a zip."""
    try:
        with zipfile.ZipFile(place) as archive:
            names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
    except (zipfile.BadZipFile, OSError) as error:
        raise Unreadable(f"{place} is not a zip that can be read: {error}") from None
    if len(names) > MAX_FILES:
        raise Unreadable(f"{place} holds {len(names)} files; at most {MAX_FILES} are read")
    yield from ((name, None) for name in sorted(set(names)))


def _describe(place: Path, inner: str, modified: datetime | None) -> Submission:
    """Work out from a path whose notebook it is."""
    parts = [
        part for part in PurePosixPath(inner.replace("\\", "/")).parts if part not in ("/", "..")
    ]
    stem = parts[-1].removesuffix(PurePosixPath(parts[-1]).suffix)
    again = _COPY.search(stem)
    base = Submission("", str(place), inner, modified=modified, copy=_number(again))
    # Only the first part is the platform's: what stands below it, a learner may have named.
    moodle = _MOODLE.fullmatch(parts[0] if len(parts) > 1 else stem)
    if moodle:
        return replace(base, student=tidy(moodle["name"]), number=moodle["number"])
    if len(parts) > 1:
        return replace(base, student=tidy(parts[0]))
    canvas = _CANVAS.fullmatch(stem)
    if canvas:
        return replace(
            base,
            student=tidy(canvas["name"]),
            number=canvas["number"],
            marked_late=canvas["late"] is not None,
            copy=base.copy or _number(_CANVAS_COPY.search(stem)),
            told=True,
        )
    return replace(base, student=tidy(stem[: again.start()] if again else stem))


def _number(found: re.Match[str] | None) -> int:
    """Return the number that a platform or a browser adds to a second copy's name."""
    return int(found[1][:9]) if found else 0


def find(place: str | os.PathLike[str]) -> list[Submission]:
    """List the submissions of a folder or a zip, one a learner.

    Parameters
    ----------
    place : path
        `ID/anything.ipynb`, flat `ID.ipynb`, or a bulk download of Canvas or Moodle, unpacked or
        as the zip itself.

    Returns
    -------
    list of Submission
        Sorted by name. Names that differ in their case only are two learners, since a folder
        can hold both; `join` matches them with a roster whatever their case. Of several notebooks
        of one learner the newest stands there (by time of change, then by the number in
        `nb (2).ipynb`); it names the others.

    Raises
    ------
    Unreadable
        If there is no such folder or zip, or no notebook in it.
    """
    top = Path(place)
    if not top.exists():
        raise Unreadable(f"there is no {top}")
    files = _folder_files(top) if top.is_dir() else _zip_files(top)
    groups: dict[str, list[Submission]] = {}
    for inner, modified in files:
        if not _is_hidden(inner):
            one = _describe(top, inner, modified)
            groups.setdefault(f"{_exact(one)}\0{one.number}", []).append(one)
    groups = {key: own for key, group in groups.items() if (own := _own(group))}
    if not any(one.inner.lower().endswith(".ipynb") for group in groups.values() for one in group):
        raise Unreadable(f"there is no .ipynb file in {top}")
    return sorted(
        map(_newest, groups.values()), key=lambda one: (one.student.casefold(), one.inner)
    )


def _own(group: list[Submission]) -> list[Submission]:
    """Return one learner's notebooks; if there are none, what was handed in instead."""
    notebooks = [one for one in group if one.inner.lower().endswith(".ipynb")]
    return notebooks or [
        one
        for one in group
        if one.number or "/" in one.inner or one.inner.lower().endswith(_INSTEAD)
    ]


def _exact(one: Submission) -> str:
    """Return the folder's name as it is, or a flat file's, whose copies belong together."""
    parts = PurePosixPath(one.inner).parts
    return parts[0] if len(parts) > 1 and not one.number else one.student


def _is_hidden(inner: str) -> bool:
    """Tell Jupyter's checkpoints and what macOS adds from submissions."""
    parts = PurePosixPath(inner).parts
    return any(part.startswith((".", "__MACOSX")) and not part.startswith("..") for part in parts)


def _newest(group: list[Submission]) -> Submission:
    """Return the newest of one learner's notebooks."""
    earliest = datetime.fromtimestamp(0, UTC)
    ordered = sorted(group, key=lambda one: (one.modified or earliest, one.copy, one.inner))
    return replace(ordered[-1], others=tuple(one.inner for one in ordered[:-1]))
