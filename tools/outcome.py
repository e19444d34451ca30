"""What the last build of the book came to: kept in ``_build/book.json`` for whoever asks later.

Standard library only: make.py reads it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Outcome:
    """The end of one build.

    Attributes
    ----------
    inputs : str
        Hash of everything that the book was made of.
    failures : list of [chapter, cell, what came]
        Chapters that stopped at a cell.
    pages : {"clean", "warned", "none"}
        Whether ``_build/html`` holds a book, and whether building it warned.
    strict : bool
        Whether anything but a clean book counts as none.
    """

    inputs: str = ""
    failures: list = field(default_factory=list)
    pages: str = "none"
    strict: bool = False

    @property
    def clean(self):
        """Say whether every cell ran and nothing warned."""
        return self.pages == "clean" and not self.failures

    @property
    def code(self):
        """The exit status: warnings count only where the build is strict."""
        whole = self.pages != "none" and not self.failures
        return 0 if whole and (self.clean or not self.strict) else 1

    def last_words(self):
        """Return the lines that say what is wrong, empty where nothing is."""
        lines = [f"{name} failed at cell '{cell}': {came}" for name, cell, came in self.failures]
        if self.clean:
            return []
        if self.pages == "none" and self.strict:
            return [*lines, "Nothing is published (--strict): _build/html is removed."]
        if self.pages == "none":
            return [*lines, "The pages were not finished; the reason stands above."]
        if self.failures:
            lines.append(
                "The other pages stand in _build/html; the page of what failed says at its cell "
                "what was expected and how to report it."
            )
        if self.pages == "warned":
            lines.append("The pages stand, but building them warned, see above (--strict: failed).")
        return lines


def write(path: Path, outcome: Outcome) -> None:
    """Keep an outcome."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(outcome), indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Outcome:
    """Return the outcome of the last build; of none, where there was none."""
    try:
        return Outcome(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return Outcome()
