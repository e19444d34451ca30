"""Read the cells of a notebook that nobody vouches for.

The one idea: a submission is data. It is measured, decoded and taken apart here, in the trusted
process, with nothing but a JSON parser; only the text of its code cells goes into the sandbox.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from attncourse.grading.running import without_magics

__all__ = ["Cell", "InvalidNotebook", "imports_of", "read_cells"]

MAX_CELLS, MAX_SOURCE = 2000, 2 << 20


class InvalidNotebook(ValueError):
    """Not a notebook that can be graded; the message says why, for learner and instructor."""


@dataclass(frozen=True)
class Cell:
    """One code cell.

    Parameters
    ----------
    number : int
        Its place in the notebook, from 1.
    source : str
        Its text.
    question : str or None
        The question whose answer it holds.
    """

    number: int
    source: str
    question: str | None = None


def imports_of(cells: Sequence[Cell]) -> str:
    """Return code that does what the cells import outside functions, as far as it can be done."""
    lines = []
    for cell in cells:
        try:
            body = ast.parse(without_magics(cell.source)).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for node in body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                lines.append(f"try:\n    {ast.unparse(node)}\nexcept Exception:\n    pass\n")
    return "".join(dict.fromkeys(lines))


def _parse(data: bytes) -> dict[str, Any]:
    """Return the notebook as a dict."""
    if not data.strip():
        raise InvalidNotebook("the file is empty")
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidNotebook("the file is not UTF-8 text") from None
    except MemoryError:
        raise InvalidNotebook("the file holds more values than there is memory for") from None
    except (ValueError, RecursionError) as error:
        raise InvalidNotebook(f"the file is not JSON: {str(error)[:100]}") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        older = isinstance(notebook, dict) and "worksheets" in notebook
        hint = "; it is of the old format 3: open it in Jupyter and save it" if older else ""
        raise InvalidNotebook(f"the file is not a notebook: it has no list of cells{hint}")
    return notebook


def _dict(value: Any) -> dict[str, Any]:
    """Return a dict, an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def _language(notebook: dict[str, Any]) -> str:
    """Return the language that a notebook says it is written in."""
    metadata = _dict(notebook.get("metadata"))
    for owner, key in (("kernelspec", "language"), ("language_info", "name")):
        name = _dict(metadata.get(owner)).get(key)
        if isinstance(name, str) and name:
            return name
    return "python"


def _source(cell: dict[str, Any], number: int) -> str:
    """Return a cell's text."""
    source = cell.get("source", "")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise InvalidNotebook(f"the text of cell {number} is not text")
    return source


def read_cells(
    data: bytes, questions: Collection[str], test_cells: Collection[str] = ()
) -> list[Cell]:
    """Take the code cells out of a notebook, without the exercise's own test cells.

    Parameters
    ----------
    data : bytes
        The file.
    questions : collection of str
        Ids of the questions, which are the grade ids of their answer cells.
    test_cells : collection of str
        Grade ids of the test cells of the exercise's own source: never run, whatever the
        submission says about them now.

    Returns
    -------
    list of Cell

    Raises
    ------
    InvalidNotebook
        With the reason.
    """
    notebook = _parse(data)
    if not _language(notebook).lower().startswith(("python", "ipython")):
        raise InvalidNotebook(
            f"the notebook is written in {_language(notebook)[:40]}, not in Python"
        )
    if len(notebook["cells"]) > MAX_CELLS:
        raise InvalidNotebook(f"{len(notebook['cells'])} cells; at most {MAX_CELLS} are read")
    cells, size = [], 0
    for number, cell in enumerate(map(_dict, notebook["cells"]), start=1):
        if cell.get("cell_type") != "code":
            continue
        marks = _dict(_dict(cell.get("metadata")).get("nbgrader"))
        name = marks.get("grade_id")
        if (marks.get("grade") is True and marks.get("solution") is not True) or (
            isinstance(name, str) and name in test_cells
        ):
            continue
        source = _source(cell, number)
        size += len(source)
        known = name if isinstance(name, str) and name in questions else None
        if source.strip():
            cells.append(Cell(number, source, known))
    if size > MAX_SOURCE:
        raise InvalidNotebook(f"{size} characters of code; at most {MAX_SOURCE} are read")
    return cells
