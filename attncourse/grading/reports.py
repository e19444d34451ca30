"""Write everything that is read after a batch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from attncourse.grading.feedback_page import feedback
from attncourse.grading.gradebook import canvas, gradebook, moodle, unmatched_rows
from attncourse.grading.gradescope import results_json
from attncourse.grading.store import file_name, write_atomically
from attncourse.grading.summary_page import summary

if TYPE_CHECKING:
    from attncourse.grading.batch import Batch

__all__ = ["write_reports"]


def write_reports(batch: Batch) -> None:
    """Write gradebooks, feedback pages and the summary.

    Parameters
    ----------
    batch : Batch
        One that has run.
    """
    out, exercise, results = batch.store.out, batch.exercise, batch.results
    for name, table in (
        ("gradebook.csv", gradebook),
        ("gradebook-canvas.csv", canvas),
        ("gradebook-moodle.csv", moodle),
    ):
        write_atomically(out / name, table(results, batch.pairs, exercise))
    write_atomically(out / "unmatched.csv", unmatched_rows(batch.unmatched))
    for student, result in results.items():
        write_atomically(
            out / "feedback" / f"{file_name(student)}.html", feedback(result, exercise)
        )
        if result["points"] is not None:
            write_atomically(
                out / "gradescope" / f"{file_name(student)}.json", results_json(result)
            )
    write_atomically(out / "summary.html", summary(list(results.values()), exercise))
    statuses = {student: result["status"] for student, result in results.items()}
    write_atomically(
        out / "statuses.json", json.dumps(statuses, indent=1, ensure_ascii=False) + "\n"
    )
