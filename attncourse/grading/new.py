"""Start an exercise: a small one that is complete, to be changed piece by piece.

The one idea: the fastest way to a right exercise is one that passes `lint` from its first minute.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from attncourse.grading.exercise import ExerciseError
from attncourse.grading.format import dump

__all__ = ["SETUP_SOURCE", "authored", "new"]

SETUP_SOURCE = "import attncourse"
START = """import numpy as np

from attncourse.grading import Exercise

exercise = Exercise("{id}")"""
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
TOML = """schema = 1
id = "{id}"
title = "{title}"
minutes = 15

[[questions]]
id = "q1"
title = "Average of each row"
points = 3
seconds = 10

[callables]
row_average = "numpy"
"""
ANSWER = '''def row_average(matrix):
    """Return the average of each row: shape (n, m) -> (n,)."""
    ### BEGIN SOLUTION
    return matrix.sum(axis=1) / matrix.shape[1]
    ### END SOLUTION
'''
PUBLIC = '''"""What a learner sees."""

import numpy as np
import pytest

from attncourse.grading.compare import close


@pytest.mark.question("q1")
@pytest.mark.points(1)
@pytest.mark.hint("Which axis runs along a row?", "axis=1 runs along a row; divide by its length.")
def test_two_rows(student):
    """Two rows give two averages."""
    came = student.row_average(np.array([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]]))
    close(came, [3.0, 1.0], "the averages")
'''
HIDDEN = '''"""What runs when it is graded."""

import pytest

from attncourse.grading.compare import close


@pytest.mark.question("q1")
@pytest.mark.points(2)
@pytest.mark.hint("Are rows of any length averaged?")
def test_any_shape(student, rng):
    """Any shape."""
    matrix = rng.normal(size=(5, 7))
    close(student.row_average(matrix), matrix.mean(axis=1), "the averages")
'''
WRONG = '''"""{name}.

{hint}
"""


def row_average(matrix):
    return {code}
'''
FILES = {
    "tests/public/test_public.py": PUBLIC,
    "tests/hidden/test_hidden.py": HIDDEN,
    "solution.md": "## q1\nA row's average is its sum divided by its length, the second size.\n",
    "wrong/q1_wrong_axis.py": WRONG.format(
        name="Averages of the columns", hint="Which axis is gone?", code="matrix.mean(axis=0)"
    ),
    "wrong/q1_not_divided.py": WRONG.format(
        name="Sums, not averages", hint="Divide by the count.", code="matrix.sum(axis=1)"
    ),
    "right/q1_mean.py": '"""NumPy\'s own mean."""\n\n\n'
    "def row_average(matrix):\n    return matrix.mean(axis=1)\n",
    "right/q1_loop.py": '"""One row at a time."""\n\nimport numpy as np\n\n\n'
    "def row_average(matrix):\n    return np.array([sum(row) / len(row) for row in matrix])\n",
}


def _cell(kind: str, name: str, source: str, **metadata: Any) -> dict[str, Any]:
    """Return a cell."""
    cell = {"cell_type": kind, "id": name, "metadata": metadata, "source": source}
    return {**cell, "outputs": [], "execution_count": None} if kind == "code" else cell


def _marked(kind: str, name: str, source: str, mark: str, **own: Any) -> dict[str, Any]:
    """Return a cell with nbgrader's marks."""
    role = {"grade_id": mark, "schema_version": 3, "task": False, **own}
    return _cell(kind, name, source, nbgrader=role)


def authored(
    spec_id: str, title: str, intro: str, parts: list[tuple[str, str, str, Any]]
) -> dict[str, Any]:
    """Return a source notebook.

    Parameters
    ----------
    spec_id, title, intro : str
        Of the exercise.
    parts : list of (question, text, code, points)
        For each question: its id, its Markdown, its answer cell with markers, its points.

    Returns
    -------
    dict
        A notebook in nbgrader's source format.
    """
    start = START.format(id=spec_id)
    cells = [
        _cell("markdown", "title", f"# Exercise {spec_id[:2]}: {title}\n\n{intro}"),
        _cell("code", "setup", SETUP_SOURCE, tags=["hide-input", "attncourse-setup"]),
        _cell("code", "imports", start),
    ]
    for name, text, code, points in parts:
        answer = {"grade": False, "locked": False, "solution": True}
        check = {"grade": True, "locked": True, "solution": False, "points": points}
        source = f'exercise.check("{name}")'
        cells += [
            _cell("markdown", f"{name}-text", text.strip()),
            _marked("code", f"{name}-answer", code.strip("\n"), name, **answer),
            _marked("code", f"{name}-check", source, f"check_{name}", **check),
        ]
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    metadata["mystnb"] = {"execution_mode": "off"}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def new(folder: Path, title: str) -> Path:
    """Start an exercise.

    Parameters
    ----------
    folder : Path
        Where; its name becomes the id, such as `21_my_topic`.
    title : str
        Its heading.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ExerciseError
        If the folder is there already or its name is no id.
    """
    if folder.exists():
        raise ExerciseError(f"{folder} is there already")
    if not re.fullmatch(r"\d\d_\w+", folder.name):
        raise ExerciseError(f"the name must be like 21_my_topic, got {folder.name!r}")
    if '"' in title or "\\" in title or "\n" in title:
        raise ExerciseError("the title must be one line without quotation marks")
    text = "## Question 1: average of each row\n\nWrite `row_average`: the average of each row."
    files = dict(FILES, **{"exercise.toml": TOML.format(id=folder.name, title=title)})
    intro = "Write the function, run its cell, then run the check below it."
    source = authored(folder.name, title, intro, [("q1", text, ANSWER, 3)])
    for name, content in {**files, "source.ipynb": dump(source)}.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8", newline="\n")
    return folder
