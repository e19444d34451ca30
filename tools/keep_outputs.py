"""Store what cells tagged ``keep_output`` show: small results that nbval compares at every test.

    python tools/keep_outputs.py chapters/17_write_the_kernel.ipynb

Run it where everything is that the cells need (Triton, without a GPU): machines that lack it show
these results instead of their own.
"""

import json
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "book" / "_ext")]
from check_notebooks import KEEP, cleaned, dump, tags_of  # noqa: E402
from course_needs import unmet  # noqa: E402
from execute_chapters import Run, execute  # noqa: E402
from processes import lossless, say  # noqa: E402


def keep(path):
    """Execute a notebook and store what it keeps; return whether it ran to its end."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if KEEP in tags_of(cell) and (lacking := unmet(tags_of(cell))):
            say(f"{path.name}: cell '{cell.id}' needs {', '.join(lacking)}, which is not here")
            return False
    run = execute(Run(path, notebook))
    if run.failure:
        say(f"{path.name}: cell '{run.cell}' failed, nothing was stored:\n{run.failure}")
        return False
    stored = json.loads(path.read_text(encoding="utf-8"))
    for cell, executed in zip(stored["cells"], notebook.cells, strict=True):
        if KEEP in tags_of(cell):
            cell["outputs"] = executed.outputs
    path.write_text(dump(cleaned(stored)), encoding="utf-8", newline="\n")
    say(f"{path.name}: stored")
    return True


def main(names):
    """Keep the outputs of the named notebooks; return the exit code."""
    lossless()
    if not names:
        say("usage: python tools/keep_outputs.py NOTEBOOK ...")
        return 2
    return 0 if all([keep(Path(name).resolve()) for name in names]) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
