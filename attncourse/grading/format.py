"""One authored notebook, and what becomes of it: the student's and the solution's.

The one idea: the source is nbgrader's own format (metadata schema 3, BEGIN/END SOLUTION), and the
release follows nbgrader's rules cell by cell, so an instructor can take a source elsewhere.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attncourse.grading.exercise import ExerciseError

__all__ = [
    "answer_cells",
    "dump",
    "marks",
    "program",
    "read_notebook",
    "solution_bodies",
    "solution_notebook",
    "student_notebook",
]

BEGIN, END = "BEGIN SOLUTION", "END SOLUTION"
STUB = ["# YOUR CODE HERE", "raise NotImplementedError()"]
SETUP = "setup"


def read_notebook(path: Path) -> dict[str, Any]:
    """Read a notebook; each cell's source becomes one string."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if isinstance(cell["source"], list):
            cell["source"] = "".join(cell["source"])
    return notebook


def dump(notebook: dict[str, Any]) -> str:
    """Write a notebook the way Jupyter does: sorted keys, one space of indent."""
    stored = copy.deepcopy(notebook)
    for cell in stored["cells"]:
        cell["source"] = cell["source"].splitlines(keepends=True)
    return json.dumps(stored, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def marks(cell: dict[str, Any]) -> dict[str, Any]:
    """Return a cell's nbgrader metadata, empty if it has none."""
    return cell["metadata"].get("nbgrader", {})


def _is_check(cell: dict[str, Any]) -> bool:
    """Say whether a cell only checks answers."""
    return bool(marks(cell).get("grade")) and not marks(cell).get("solution")


def answer_cells(notebook: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the answer cells by question."""
    return {
        marks(cell)["grade_id"]: cell for cell in notebook["cells"] if marks(cell).get("solution")
    }


def _regions(source: str, place: str) -> Iterator[tuple[str, bool, bool]]:
    """Yield each line with: is it inside a solution, is it a marker."""
    inside = False
    for line in source.split("\n"):
        if BEGIN in line or END in line:
            if (BEGIN in line) == inside:
                raise ExerciseError(f"{place}: {line.strip()!r} without its partner")
            inside = BEGIN in line
            yield line, inside, True
        else:
            yield line, inside, False
    if inside:
        raise ExerciseError(f"{place}: {BEGIN} without {END}")


def _without_solution(source: str, place: str) -> str:
    """Replace each solution by nbgrader's stub, indented like its marker."""
    kept = []
    for line, inside, marker in _regions(source, place):
        if marker and inside:
            indent = re.match(r"\s*", line)[0]  # type: ignore[index]
            kept += [indent + text for text in STUB]
        elif not marker and not inside:
            kept.append(line)
    return "\n".join(kept)


def _without_markers(source: str, place: str) -> str:
    """Keep the solution, drop the two comment lines around it."""
    return "\n".join(line for line, _, marker in _regions(source, place) if not marker)


def solution_bodies(notebook: dict[str, Any]) -> dict[str, str]:
    """Return what stands between the markers, by question: what must not leak."""
    bodies = {}
    for name, cell in answer_cells(notebook).items():
        lines = _regions(cell["source"], name)
        bodies[name] = "\n".join(line for line, inside, marker in lines if inside and not marker)
    return bodies


def _checksum(cell: dict[str, Any]) -> str:
    """Return nbgrader's checksum of a cell: source, type, role, name and points."""
    own = marks(cell)
    parts = [cell["source"], cell["cell_type"]]
    parts += [str(bool(own.get("grade"))), str(bool(own.get("solution")))]
    parts += [str(bool(own.get("locked"))), own["grade_id"]]
    if own.get("grade"):
        parts.append(str(float(own["points"])))
    return hashlib.md5("".join(parts).encode()).hexdigest()


def _release(cell: dict[str, Any]) -> None:
    """Lock a cell as nbgrader does and give it its checksum."""
    own = marks(cell)
    if own.get("solution"):
        cell["metadata"]["deletable"] = False
    elif own.get("grade") or own.get("locked"):
        cell["metadata"].update(deletable=False, editable=False)
    if own.get("grade") or own.get("solution") or own.get("locked"):
        own.update(checksum=_checksum(cell), cell_type=cell["cell_type"])


def student_notebook(source: dict[str, Any]) -> dict[str, Any]:
    """Make the notebook that a learner opens.

    Parameters
    ----------
    source : dict
        The authored notebook.

    Returns
    -------
    dict
        The same cells, solutions replaced by a line that raises, checks locked.
    """
    notebook = copy.deepcopy(source)
    for cell in notebook["cells"]:
        if marks(cell).get("solution"):
            cell["source"] = _without_solution(cell["source"], marks(cell)["grade_id"])
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
        _release(cell)
    return notebook


def _explanations(text: str) -> dict[str, str]:
    """Split `solution.md` at its `## q1` headings."""
    parts = re.split(r"^## (\w+)[^\n]*\n", text, flags=re.MULTILINE)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def solution_notebook(source: dict[str, Any], explained: str) -> dict[str, Any]:
    """Make the notebook with answers, each followed by its explanation.

    Parameters
    ----------
    source : dict
        The authored notebook.
    explained : str
        Text of `solution.md`: a section `## q1` for each question.

    Returns
    -------
    dict
    """
    notebook, texts = copy.deepcopy(source), _explanations(explained)
    cells = []
    for cell in notebook["cells"]:
        name = marks(cell).get("grade_id", "")
        if marks(cell).get("solution"):
            cell["source"] = _without_markers(cell["source"], name)
        cells.append(cell)
        if marks(cell).get("solution") and name in texts:
            page = {"cell_type": "markdown", "id": f"why-{name}", "metadata": {}}
            cells.append({**page, "source": f"**Why.** {texts[name]}"})
    notebook["cells"] = cells
    return notebook


def program(notebook: dict[str, Any]) -> str:
    """Return the code of a notebook without its setup and check cells."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    own = [cell["source"] for cell in cells if not _is_check(cell) and cell.get("id") != SETUP]
    return "\n\n".join(own) + "\n"
