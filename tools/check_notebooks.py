"""Check that the chapters are stored clean, and clean them with ``--fix``.

A notebook holds no outputs and no execution counts, except the small text outputs of cells
tagged ``keep_output`` (which also carry ``nbval-check-output``, so that a test compares them; nbval
takes a cell without an execution count for one that never ran, so these always store a 1).
Every cell has a stable id, code fits a printed page, and no editor leaves settings behind.

Standard library only, so that pre-commit and make.py can run it anywhere.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from processes import lossless

ROOT = Path(__file__).resolve().parents[1]
KEEP, COMPARED = "keep_output", "nbval-check-output"
CELL_METADATA = {"tags", "mystnb"}
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
NOTEBOOK_METADATA = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
LONGEST_CELL, LONGEST_LINE, LARGEST_OUTPUT = 15, 77, 2000


def text_of(value):
    """Return a notebook's text field as one string."""
    return "".join(value) if isinstance(value, list) else value


def tags_of(cell):
    """Return a cell's tags."""
    return cell.get("metadata", {}).get("tags", [])


def code_problems(cell):
    """Yield what is wrong with a code cell."""
    tags, outputs = tags_of(cell), cell.get("outputs", [])
    if cell.get("execution_count") != (1 if KEEP in tags else None):
        yield f"must store the execution count {'1' if KEEP in tags else 'null'}"
    if KEEP in tags and not outputs:
        yield f"is tagged {KEEP} but stores nothing to compare: run it and save"
    if outputs and KEEP not in tags:
        yield f"stores outputs without the tag {KEEP}"
    if (KEEP in tags) != (COMPARED in tags):
        yield f"has one of the tags {KEEP} and {COMPARED} without the other"
    for output in outputs:
        if output.get("execution_count") is not None:
            yield "stores an output with an execution count"
        if output["output_type"] == "error" or set(output.get("data", {})) - {"text/plain"}:
            yield "keeps an output that is not plain text"
        if len(json.dumps(output)) > LARGEST_OUTPUT:
            yield f"keeps an output of more than {LARGEST_OUTPUT} characters"
    lines = text_of(cell["source"]).splitlines()
    if len(lines) > LONGEST_CELL:
        yield f"has {len(lines)} lines, at most {LONGEST_CELL} are read well"
    for line in lines:
        if len(line) > LONGEST_LINE and "http" not in line:
            yield f"has a line of {len(line)} characters, the page shows {LONGEST_LINE}: {line}"


def problems(notebook):
    """Yield what is wrong with a notebook, as ``place: text``."""
    if (notebook.get("nbformat"), notebook.get("nbformat_minor")) != (4, 5):
        yield "notebook: the format must be 4.5, which gives every cell an id"
    if notebook.get("metadata") != NOTEBOOK_METADATA:
        yield "notebook: metadata must name the kernel python3 and nothing else"
    seen = set()
    for number, cell in enumerate(notebook["cells"]):
        name = cell.get("id", "")
        place = f"cell {number} ({name or 'no id'})"
        if not ID.fullmatch(name):
            yield f"{place}: the id must be words joined by hyphens, like gradient-norms"
        if name in seen:
            yield f"{place}: the id is used twice"
        seen.add(name)
        if extra := set(cell.get("metadata", {})) - CELL_METADATA:
            yield f"{place}: metadata left behind: {', '.join(sorted(extra))}"
        if not text_of(cell["source"]).strip():
            yield f"{place}: is empty"
        if cell["cell_type"] == "code":
            yield from (f"{place}: {text}" for text in code_problems(cell))


def cleaned(notebook):
    """Return a notebook without what must not be stored; the text is not touched."""
    for cell in notebook["cells"]:
        metadata = cell.get("metadata", {})
        cell["metadata"] = {key: metadata[key] for key in metadata if key in CELL_METADATA}
        if cell["cell_type"] == "code":
            cell["execution_count"] = 1 if KEEP in tags_of(cell) else None
            kept = cell.get("outputs", []) if KEEP in tags_of(cell) else []
            for output in kept:
                if "execution_count" in output:
                    output["execution_count"] = None
            cell["outputs"] = kept
    return {**notebook, "metadata": NOTEBOOK_METADATA}


def dump(notebook):
    """Write a notebook the way Jupyter does: one space of indent, a newline at the end."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def main(arguments):
    """Check (or fix) the named notebooks, or all chapters; return the exit code."""
    lossless()
    names = [name for name in arguments if name != "--fix"]
    paths = [Path(name) for name in names] or sorted((ROOT / "chapters").glob("*.ipynb"))
    if not paths:
        print(f"there are no notebooks in {ROOT / 'chapters'}")
        return 1
    bad = 0
    for path in paths:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        if "--fix" in arguments:
            notebook = cleaned(notebook)
            path.write_text(dump(notebook), encoding="utf-8")
        for text in problems(notebook):
            bad += 1
            print(f"{path.name}: {text}")
    print(f"{len(paths)} notebooks checked, {bad} problems" + (": try --fix" if bad else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
