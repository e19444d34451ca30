"""Grade the exercise's own solution before anybody's work.

The one idea: a test that breaks after its first call looks like a learner's mistake, and everybody
loses its points. The solution must get every point, under the very settings of the batch; if it
does not, nothing is graded.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attncourse.grading.exercise import ExerciseError
from attncourse.grading.format import dump, read_notebook, solution_notebook
from attncourse.grading.grade import Job
from attncourse.grading.jobs import local
from attncourse.grading.store import job_key, write_atomically

if TYPE_CHECKING:
    from attncourse.grading.batch import Batch

__all__ = ["rehearse"]


def rehearse(batch: Batch) -> bool:
    """Grade the solution of a batch's exercise; with `resume`, only if something has changed.

    Parameters
    ----------
    batch : Batch
        One that has not run.

    Returns
    -------
    bool
        False if the exercise has no `source.ipynb`, so that there is no solution to grade.

    Raises
    ------
    ExerciseError
        If the solution loses a point, with the tests that it fails.
    """
    source = batch.exercise.path / "source.ipynb"
    if not source.is_file():
        return False
    notebook = dump(solution_notebook(read_notebook(source), ""))
    job = Job("the solution", notebook.encode(), batch.options.settings)
    note = batch.store.out / "solution.json"
    if batch.options.resume and note.is_file() and _key(note.read_text("utf-8")) == job_key(job):
        return True
    (outcome,) = local([job], 1, batch.options.settings.patience(batch.exercise))
    if problem := outcome.problem or _problem(outcome.result or {}):
        raise ExerciseError(
            f"the solution of {batch.exercise.id} itself does not get full marks, so nothing is "
            f"graded: {problem}"
        )
    write_atomically(note, json.dumps({"key": job_key(job)}) + "\n")
    return True


def _key(text: str) -> str:
    """Return the key of the solution that passed last."""
    try:
        return str(json.loads(text)["key"])
    except (ValueError, KeyError, TypeError):
        return ""


def _problem(result: dict[str, Any]) -> str:
    """Return what a solution's result lacks; empty if it got every point."""
    if result["points"] == result["max"]:
        return ""
    lost = [
        f"{test['test']}: {test['message'][:300]}"
        for entry in result["questions"]
        for test in entry["tests"]
        if not test["passed"]
    ]
    errors = [f"cell {cell['cell']}: {cell['error']}" for cell in result["cells"] if cell["error"]]
    return "; ".join(filter(None, [result["message"], *errors, *lost]))[:3000]
