"""The output folder: results that are written whole or not at all, and found again on a resume.

The one idea: a result is filed under a key of all that it depends on. Same key, same grade, so a
second run has nothing to do; another byte anywhere and the submission is graded anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import unicodedata
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from attncourse.grading.grade import SCHEMA, Job, environment
from attncourse.grading.packing import exercise_files

__all__ = ["Store", "file_name", "job_key", "write_atomically"]

_FORBIDDEN = set('<>:"/\\|?*%') | {chr(code) for code in range(32)}


def write_atomically(path: str | os.PathLike[str], data: str | bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part.

    Parameters
    ----------
    path : path
        Its folder is made if it is missing.
    data : str or bytes
        Text is written as UTF-8 with plain line ends.
    """
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
    number, name = tempfile.mkstemp(dir=place.parent, prefix=".writing-")
    try:
        with os.fdopen(number, "wb") as target:
            target.write(raw)
            target.flush()
            os.fsync(target.fileno())
        os.chmod(name, 0o600)
        os.replace(name, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def file_name(student: str) -> str:
    """Return a file name for a student: readable, and different for different students.

    Examples
    --------
    >>> file_name("ana"), file_name("José García"), file_name("../x")
    ('ana', 'José García', '%2e.%2fx')
    """
    text = unicodedata.normalize("NFC", student)
    escaped = "".join(
        "".join(f"%{byte:02x}" for byte in letter.encode("utf-8", "surrogatepass"))
        if letter in _FORBIDDEN or (place == 0 and letter in ". ") or not letter.isprintable()
        else letter
        for place, letter in enumerate(text)
    )
    if len(escaped.encode()) > 120 or escaped.endswith((" ", ".")):
        escaped = f"{escaped[:40].rstrip(' .')}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return escaped


def _hash(files: dict[str, bytes]) -> str:
    """Return a hash of files' names and contents."""
    total = hashlib.sha256()
    for name in sorted(files):
        total.update(f"{name}\0{len(files[name])}\0".encode())
        total.update(files[name])
    return total.hexdigest()


@cache
def _exercise_hash(folder: str) -> str:
    """Return a hash of all that an exercise says about grading."""
    return _hash(exercise_files(folder))


@cache
def _grader_hash() -> str:
    """Return a hash of the grader's own code."""
    root = Path(__file__).resolve().parent
    return _hash({str(path.relative_to(root)): path.read_bytes() for path in root.glob("**/*.py")})


def job_key(job: Job) -> str:
    """Return the key of a grade: everything that it depends on.

    Parameters
    ----------
    job : Job

    Returns
    -------
    str
        64 hex digits. The secret seed goes in, but cannot be read out of them.
    """
    parts = {
        "schema": SCHEMA,
        "student": job.student,
        "submission": hashlib.sha256(job.data).hexdigest(),
        "exercise": _exercise_hash(str(Path(job.settings.exercise).resolve())),
        "grader": _grader_hash(),
        "environment": environment(),
        "settings": {**asdict(job.settings), "exercise": ""},  # its folder may move
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Store:
    """The folder of results.

    Parameters
    ----------
    out : path
        Made if it is missing, readable by its owner only: it holds personal data.
    """

    def __init__(self, out: str | os.PathLike[str]) -> None:
        self.out = Path(out)
        self.out.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.results = self.out / "results"
        self.results.mkdir(exist_ok=True, mode=0o700)

    def path(self, student: str) -> Path:
        """Return where a student's result is filed."""
        return self.results / f"{file_name(student)}.json"

    def save(self, result: dict[str, Any]) -> None:
        """File a result."""
        text = json.dumps(result, indent=1, ensure_ascii=False, sort_keys=True)
        write_atomically(self.path(result["student"]), text + "\n")

    def load(self, student: str) -> dict[str, Any] | None:
        """Return a filed result; None if there is none or it cannot be read."""
        try:
            result = json.loads(self.path(student).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return result if isinstance(result, dict) and result.get("student") == student else None

    def done(self, student: str, key: str) -> dict[str, Any] | None:
        """Return a filed result that still holds; an error of the grader never holds."""
        result = self.load(student)
        holds = result is not None and result.get("key") == key
        return result if holds and result and result.get("status") != "grader_error" else None
