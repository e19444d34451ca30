"""Wrong attention functions, each one small change away from a right one.

`dense.toml` and `flash.toml` list the changes of `dense.py` and `flash.py`; the other lists
go by kind and name the file that each changes. Most are mistakes that were made: in
homework, in kernels, or in this course's own code.
"""

from __future__ import annotations

import linecache
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
BASES = ("dense", "flash")
LISTS = (*BASES, "sizes", "state", "numbers")


@dataclass(frozen=True)
class Mutant:
    """One small change of a correct function.

    Attributes
    ----------
    name : str
        What is wrong with it.
    base : {"dense", "flash"}
        The correct file that it changes.
    changes : tuple of (str, str)
        Text to find, and what it becomes; each text stands there exactly once.
    caught_by : str
        Name of the case that must fail.
    """

    name: str
    base: str
    changes: tuple[tuple[str, str], ...]
    caught_by: str

    def source(self) -> str:
        """Return the changed source.

        Raises
        ------
        ValueError
            When a text to find does not stand in the file exactly once.
        """
        text = _read(f"{self.base}.py")
        for old, new in self.changes:
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {old!r} stands {text.count(old)} times, wanted 1")
            text = text.replace(old, new)
        return text

    def load(self) -> Callable[..., Any]:
        """Return the wrong function."""
        return load(self.source(), f"<{self.name}>")


def load(source: str, name: str) -> Callable[..., Any]:
    """Execute a source and return its `attention`, with lines that tracebacks can show."""
    module = ModuleType(name)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), module.__dict__)
    return module.attention


def correct(base: str) -> Callable[..., Any]:
    """Return the correct function of a file."""
    return load(_read(f"{base}.py"), f"<{base}>")


def library_of(base: str) -> str:
    """Return what a file's function takes."""
    return "numpy" if base == "dense" else "torch"


def features_of(base: str) -> set[str]:
    """Return what a file's function can do."""
    from attncourse.rungs import FEATURES

    lacking = {"grad"} if base == "dense" else set()
    return (set(FEATURES) | {"scale", "half"}) - lacking


def mutants() -> tuple[Mutant, ...]:
    """Return all mutants, list by list."""
    return tuple(
        Mutant(
            entry["name"],
            entry.get("base", name),
            tuple((change["find"], change["become"]) for change in entry["change"]),
            entry["caught_by"],
        )
        for name in LISTS
        for entry in tomllib.loads(_read(f"{name}.toml"))["mutant"]
    )


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
