"""Wrong attention functions and caches, each one small change away from a right one.

`dense.toml` and `flash.toml` list the changes of `dense.py` and `flash.py`; the other lists
go by kind and name the file that each changes. Most are mistakes that were made: in
homework, in kernels, or in this course's own code. `steps.toml` and `caches.toml` change
what decodes with a cache.
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
DECODING = {"steps": "decode", "caches": "Cache"}


@dataclass(frozen=True)
class Mutant:
    """One small change of a correct function.

    Attributes
    ----------
    name : str
        What is wrong with it.
    base : str
        The correct file that it changes: "dense", "flash", "steps" or "caches".
    changes : tuple of (str, str)
        Text to find, and what it becomes; each text stands there exactly once.
    caught_by : str
        Name of the case that must fail.
    of : str
        What of the file is tested.
    """

    name: str
    base: str
    changes: tuple[tuple[str, str], ...]
    caught_by: str
    of: str = "attention"

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
        return load(self.source(), f"<{self.name}>", self.of)


def load(source: str, name: str, of: str = "attention") -> Callable[..., Any]:
    """Execute a source and return one thing in it, with lines that tracebacks can show."""
    module = ModuleType(name)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), module.__dict__)
    return getattr(module, of)


def correct(base: str, of: str = "attention") -> Callable[..., Any]:
    """Return the correct function or class of a file."""
    return load(_read(f"{base}.py"), f"<{base}>", of)


def library_of(base: str) -> str:
    """Return what a file's function takes."""
    return "numpy" if base == "dense" else "torch"


def features_of(base: str) -> set[str]:
    """Return what a file's function can do."""
    from attncourse.rungs import FEATURES

    lacking = {"grad"} if base == "dense" else set()
    return (set(FEATURES) | {"scale", "half"}) - lacking


def decoding_features(of: str) -> set[str]:
    """Return what a decode function of `steps.py` can do."""
    from attncourse.conformance.decoding._step import FEATURES

    return set(FEATURES) - ({"paged"} if of == "decode" else set())


def mutants() -> tuple[Mutant, ...]:
    """Return all wrong attention functions, list by list."""
    return _listed(dict.fromkeys(LISTS, "attention"))


def decoding_mutants() -> tuple[Mutant, ...]:
    """Return all wrong decode functions and caches."""
    return _listed(DECODING)


def _listed(lists: dict[str, str]) -> tuple[Mutant, ...]:
    """Read lists of mutants; each has a thing that is tested unless an entry says otherwise."""
    return tuple(
        Mutant(
            entry["name"],
            entry.get("base", name),
            tuple((change["find"], change["become"]) for change in entry["change"]),
            entry["caught_by"],
            entry.get("of", of),
        )
        for name, of in lists.items()
        for entry in tomllib.loads(_read(f"{name}.toml"))["mutant"]
    )


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
