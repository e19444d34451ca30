"""Build what leaves an exercise's folder: student notebook, solution notebook, private bundle.

The one idea: nothing is written by hand twice. What goes to learners is computed from the source
and then searched for what must not be in it.
"""

from __future__ import annotations

from pathlib import Path

from attncourse.grading.exercise import ExerciseError, Spec
from attncourse.grading.format import (
    dump,
    read_notebook,
    solution_bodies,
    solution_notebook,
    student_notebook,
)
from attncourse.grading.packing import exercise_files, pack

__all__ = ["build", "bundle", "leaks", "student_text"]

SHORTEST_LINE, SHORTEST_TEST_LINE = 24, 40  # shorter ones stand in any code


def student_text(spec: Spec) -> str:
    """Return the student notebook's text, checked for leaks."""
    source = read_notebook(spec.path / "source.ipynb")
    text = dump(student_notebook(source))
    cells = "\n".join(cell["source"] for cell in student_notebook(source)["cells"])
    if found := leaks(spec, cells):
        raise ExerciseError(f"{spec.id}: the student notebook would hold {found[0]!r}")
    return text


def _lines(text: str) -> list[str]:
    """Return a text's lines without indentation and without empty ones."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def _hidden_lines(spec: Spec) -> list[str]:
    """Return the lines of hidden tests that say something, and that no public test says."""
    hidden = [f.read_text(encoding="utf-8") for f in spec.path.glob("tests/hidden/*.py")]
    shown = [f.read_text(encoding="utf-8") for f in spec.path.glob("tests/public/*.py")]
    known = {line for text in shown for line in _lines(text)}
    found = {line for text in hidden for line in _lines(text) if len(line) >= SHORTEST_TEST_LINE}
    return sorted(line for line in found - known if "import" not in line)


def leaks(spec: Spec, text: str, *, whole: bool = False) -> list[str]:
    """Return what of solutions and hidden tests a text holds.

    Parameters
    ----------
    spec : Spec
        The exercise, with its source and hidden tests.
    text : str
        What is going to be published.
    whole : bool
        Look for whole solutions, not for their single lines: where known mistakes are published,
        which share lines with solutions.

    Returns
    -------
    list of str
        Lines of hidden tests, and solutions.
    """
    bodies = solution_bodies(read_notebook(spec.path / "source.ipynb")).values()
    if whole:
        secrets = ["\n".join(_lines(body)) for body in bodies]
    else:
        secrets = [line for body in bodies for line in _lines(body) if len(line) >= SHORTEST_LINE]
    flat = "\n".join(_lines(text))
    return [secret for secret in [*_hidden_lines(spec), *secrets] if secret in flat]


def bundle(spec: Spec) -> bytes:
    """Return the private bundle: a zip of the folder, the same bytes for the same files."""
    files = exercise_files(spec.path, ("solution.md", "right/*.py"))
    return pack({f"{spec.id}/{name}": data for name, data in files.items()})


def build(spec: Spec, out: Path, *, beside: bool = True) -> list[Path]:
    """Write everything that is made from an exercise.

    Parameters
    ----------
    spec : Spec
        The exercise.
    out : Path
        Folder for the solution notebook and the private bundle.
    beside : bool
        Write the student notebook into the exercise's own folder (from where Colab and the book
        take it), not into `out`.

    Returns
    -------
    list of Path
        The student notebook first.
    """
    out.mkdir(parents=True, exist_ok=True)
    explained = spec.path / "solution.md"
    text = explained.read_text(encoding="utf-8") if explained.is_file() else ""
    source = read_notebook(spec.path / "source.ipynb")
    student = (spec.path if beside else out) / f"{spec.id}.ipynb"
    student.write_text(student_text(spec), encoding="utf-8", newline="\n")
    solution = out / f"{spec.id}_solution.ipynb"
    solution.write_text(dump(solution_notebook(source, text)), encoding="utf-8", newline="\n")
    private = out / f"{spec.id}_private.zip"
    private.write_bytes(bundle(spec))
    return [student, solution, private]
