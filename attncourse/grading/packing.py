"""The files of an exercise that a grader needs, as one zip: for another machine, for Gradescope."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

__all__ = ["exercise_files", "pack", "unpack", "with_private_tests"]


def exercise_files(folder: str | os.PathLike[str], more: tuple[str, ...] = ()) -> dict[str, bytes]:
    """Return what grading depends on: settings, source notebook, all tests, known mistakes.

    Parameters
    ----------
    folder : path
        The exercise.
    more : tuple of str
        Patterns of files that are wanted too.

    Returns
    -------
    dict of str to bytes
        Relative path -> contents, sorted.
    """
    root = Path(folder)
    patterns = ("exercise.toml", "source.ipynb", "tests/**/*", "wrong/*.py", *more)
    wanted = {path for pattern in patterns for path in root.glob(pattern)}
    found = [path for path in wanted if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(found)}


def with_private_tests(folder: str | os.PathLike[str], private: str | os.PathLike[str]) -> Path:
    """Return an exercise whose hidden tests are taken from another, private folder.

    Parameters
    ----------
    folder : path
        The exercise.
    private : path
        Holds `ID/tests/hidden/` of this exercise, or `tests/hidden/` itself.

    Returns
    -------
    Path
        A copy in a folder that only this user can read.

    Raises
    ------
    FileNotFoundError
        If there is no hidden test.
    """
    files = {n: d for n, d in exercise_files(folder).items() if not n.startswith("tests/hidden/")}
    places = [Path(private) / Path(folder).name / "tests/hidden", Path(private) / "tests/hidden"]
    hidden = next((place for place in places if place.is_dir()), None)
    found = {} if hidden is None else {p.name: p.read_bytes() for p in sorted(hidden.glob("*.py"))}
    if not found:
        raise FileNotFoundError(f"no hidden tests: neither {places[0]} nor {places[1]} holds any")
    return unpack(pack({**files, **{f"tests/hidden/{n}": d for n, d in found.items()}}))


def pack(files: dict[str, bytes], executable: tuple[str, ...] = ()) -> bytes:
    """Write files into a zip: the same bytes for the same files.

    Parameters
    ----------
    files : dict of str to bytes
        Relative path -> contents.
    executable : tuple of str
        Those that are programs.

    Returns
    -------
    bytes
    """
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if name in executable else 0o644) << 16
            archive.writestr(entry, files[name])
    return target.getvalue()


def unpack(data: bytes) -> Path:
    """Unpack an exercise that `pack` wrote into a private folder, once a machine and content.

    Parameters
    ----------
    data : bytes
        From a trusted side only: hidden tests are programs.

    Returns
    -------
    Path
    """
    top = Path(tempfile.gettempdir()) / f"attncourse-exercises-{os.getuid()}"
    top.mkdir(mode=0o700, exist_ok=True)
    facts = top.lstat()
    if facts.st_uid != os.getuid() or top.is_symlink() or facts.st_mode & 0o077:
        raise PermissionError(f"{top} belongs to somebody else or is open to others")
    place = top / hashlib.sha256(data).hexdigest()[:32]
    if place.is_dir():
        return place
    with tempfile.TemporaryDirectory(dir=top) as name, zipfile.ZipFile(io.BytesIO(data)) as archive:
        fresh = Path(name) / "exercise"
        for entry in archive.infolist():
            parts = PurePosixPath(entry.filename).parts
            if ".." in parts or PurePosixPath(entry.filename).is_absolute():
                raise ValueError(f"a path that leads out of the exercise: {entry.filename}")
            fresh.joinpath(*parts).parent.mkdir(parents=True, exist_ok=True)
            fresh.joinpath(*parts).write_bytes(archive.read(entry))
        try:
            fresh.rename(place)
        except OSError:
            if not place.is_dir():  # another process of this machine may have been faster
                raise
    return place
