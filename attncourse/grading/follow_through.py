"""Give a right answer its points although it builds on an earlier one that is wrong.

The one idea: a question that lost points is asked once more, with the solution in place of the
learner's earlier answers. Only passes are taken over from that run, never a text: its worker has
seen solutions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from attncourse.grading.cells import Cell
from attncourse.grading.exercise import Spec
from attncourse.grading.format import answer_cells, read_notebook, solution_notebook

__all__ = ["follow", "with_solutions"]

Run = Callable[[Sequence[Cell], str], dict[str, list[Any]]]


def with_solutions(spec: Spec, cells: Sequence[Cell], before: str) -> list[Cell]:
    """Return a notebook's cells with the solution in place of the answers before a question.

    Parameters
    ----------
    spec : Spec
        The exercise, with its source.
    cells : sequence of Cell
        The learner's.
    before : str
        Id of the question.

    Returns
    -------
    list of Cell
    """
    solved = answer_cells(solution_notebook(read_notebook(spec.path / "source.ipynb"), ""))
    ids = [each.id for each in spec.questions]
    earlier = {name: solved[name]["source"] for name in ids[: ids.index(before)]}
    return [replace(cell, source=earlier.get(cell.question or "", cell.source)) for cell in cells]


def follow(
    spec: Spec, cells: Sequence[Cell], found: dict[str, list[Any]], run: Run
) -> dict[str, list[Any]]:
    """Run what was lost once more, with earlier answers put right.

    Parameters
    ----------
    spec : Spec
        The exercise.
    cells : sequence of Cell
        The learner's.
    found : dict of str to list of TestResult
        What both folders of tests found.
    run : callable
        Runs the tests of one question on some cells.

    Returns
    -------
    dict of str to list of TestResult
        The same tests; those that pass now say so, and have no text.
    """
    lost = {row.question for rows in found.values() for row in rows if row.outcome == "failed"}
    if not spec.follow_through or not (spec.path / "source.ipynb").is_file():
        return found
    ids = [each.id for each in spec.questions]
    for place, name in enumerate(ids):
        if name in lost and lost & set(ids[:place]):
            again = run(with_solutions(spec, cells, name), name)
            passed = {
                (folder, row.nodeid)
                for folder, rows in again.items()
                for row in rows
                if row.outcome == "passed"
            }
            found = {
                folder: [
                    _passed(row) if (folder, row.nodeid) in passed else row for row in found[folder]
                ]
                for folder in found
            }
    return found


def _passed(row: Any) -> Any:
    """Return a test's result as one that passed with the solution's earlier answers."""
    if row.outcome != "failed":
        return row
    return replace(row, outcome="passed", message=FOLLOWED, hints=[])


FOLLOWED = "passed with the solution in place of your earlier answers"
