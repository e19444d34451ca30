"""Grade a folder of submissions: plan, run, file, report.

The one idea: every learner ends in exactly one row, whatever happens on the way, and what has been
graded is filed at once, so that an interruption costs nothing but the jobs that were running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from attncourse.grading.backends import refuse_exposure
from attncourse.grading.exercise import Spec
from attncourse.grading.grade import Job, blank, environment
from attncourse.grading.jobs import Outcome, local
from attncourse.grading.late import factor, lateness
from attncourse.grading.points import exact, shown
from attncourse.grading.roster import Learner, Pair, RosterError, join, unmatched
from attncourse.grading.settings import Settings
from attncourse.grading.store import Store, job_key
from attncourse.grading.submissions import MAX_BYTES, Unreadable, find

__all__ = ["Batch", "Options", "default_out"]


@dataclass(frozen=True)
class Options:
    """What to grade, and where.

    Parameters
    ----------
    settings : Settings
        How each submission is graded.
    submissions, out : str
        Folder or zip of submissions, folder for the results.
    roster : sequence of Learner or None
        Who is on the course.
    workers : int
        How many submissions are graded at the same time.
    resume : bool
        Keep results that still hold.
    due : datetime or None
        After it a submission is late.
    executor : str
        `local` or `dask`.
    scheduler : str
        Address of a dask cluster; empty: one on this machine.
    max_bytes : int
        A larger file is not read.
    """

    settings: Settings
    submissions: str
    out: str
    roster: Sequence[Learner] | None = None
    workers: int = 2
    resume: bool = False
    due: datetime | None = None
    executor: str = "local"
    scheduler: str = ""
    max_bytes: int = MAX_BYTES


@dataclass
class Batch:
    """One run over all submissions.

    Parameters
    ----------
    options : Options
        What to grade.
    exercise : Exercise
        The exercise of its settings, loaded.
    """

    options: Options
    exercise: Spec
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    pairs: dict[str, Pair] = field(default_factory=dict)
    kept: int = 0

    def __post_init__(self) -> None:
        """Find the submissions and make the output folder."""
        options = self.options
        found = find(options.submissions)
        secrets = [str(self.exercise.path), options.submissions, options.out]
        refuse_exposure(secrets, options.settings.backend)
        pairs = join(found, options.roster)
        if options.roster is not None and not any(p.learner and p.submission for p in pairs):
            names = ", ".join(repr(one.student) for one in found[:3])
            raise RosterError(
                f"none of the {len(found)} submissions matches a learner of the roster; they are "
                f"named {names}: do the roster's id, name, canvas_id or moodle_id say the same?"
            )
        self.pairs = {pair.student: pair for pair in pairs}
        self.unmatched = [] if options.roster is None else unmatched(pairs)
        # Somebody's work is there under a name that we do not know: nobody is missing for sure.
        self.doubtful = any(kind != "nothing matched" for kind, _, _ in self.unmatched)
        self.store = Store(options.out)

    def run(
        self, tell: Callable[[dict[str, Any]], None] = lambda _: None
    ) -> dict[str, dict[str, Any]]:
        """Grade everybody.

        Parameters
        ----------
        tell : callable
            Told of every result, for a progress bar.

        Returns
        -------
        dict of str to dict
            Results by student, sorted.
        """
        for outcome in self._execute(self._jobs(tell)):
            result = outcome.result
            if result is None:
                result = blank(outcome.job.student, self.exercise, "grader_error", outcome.problem)
            result["key"] = job_key(outcome.job)
            self._file(result, tell)
        self.results = dict(sorted(self.results.items(), key=lambda item: item[0].casefold()))
        return self.results

    def _execute(self, jobs: Iterator[Job]) -> Iterator[Outcome]:
        """Send the jobs to where they are graded."""
        options = self.options
        if options.executor == "dask":
            from attncourse.grading.cluster import on_dask

            yield from on_dask(jobs, options.workers, options.scheduler)
            return
        yield from local(jobs, options.workers, options.settings.patience(self.exercise))

    def _jobs(self, tell: Callable[[dict[str, Any]], None]) -> Iterator[Job]:
        """Yield what has to be run; file at once what has not."""
        for student, pair in self.pairs.items():
            if pair.problem:
                self._file(blank(student, self.exercise, "grader_error", pair.problem), tell)
                continue
            try:
                data = pair.submission.read(self.options.max_bytes) if pair.submission else None
            except Unreadable as error:
                self._file(blank(student, self.exercise, "invalid_notebook", str(error)), tell)
                continue
            if data is None:
                self._file(self._missing(student), tell)
                continue
            job = Job(student, data, self.options.settings)
            old = self.store.done(student, job_key(job)) if self.options.resume else None
            if old is None:
                yield job
            else:
                self.kept += 1
                self._file(old, tell)

    def _missing(self, student: str) -> dict[str, Any]:
        """Return the result of somebody of whom nothing was found; a 0 only if that is sure."""
        result = blank(student, self.exercise, "missing", "nothing was handed in")
        if self.doubtful:
            result["message"] = (
                "nothing was matched, and other work has no owner: see unmatched.csv"
            )
            for entry in (result, *result["questions"]):
                entry["points"] = None
        return result

    def _file(self, result: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> None:
        """Add what is known about the submission from outside, and write the result."""
        pair = self.pairs[result["student"]]
        one = pair.submission
        result.setdefault("environment", environment())
        result.setdefault("isolation", self.options.settings.backend)
        result["on_roster"] = self.options.roster is None or pair.learner is not None
        result["file"] = one.inner if one else ""
        result["other_files"] = list(one.others) if one else []
        self._apply_lateness(result, pair)
        self.store.save(result)
        self.results[result["student"]] = result
        tell(result)

    def _apply_lateness(self, result: dict[str, Any], pair: Pair) -> None:
        """Mark a late submission and take off what that costs."""
        one = pair.submission
        late = lateness(one.modified if one and not one.told else None, self.options.due)
        if one and one.marked_late:
            late = max(late, timedelta(seconds=1))  # it says only that: a day that has begun
        result["late_seconds"] = round(late.total_seconds())
        result["late"] = bool(late)
        earned = result.setdefault("earned", result["points"])
        if earned is not None:
            result["points"] = shown(exact(earned) * factor(late, self.exercise.late))
        if result["late"] and result["status"] == "graded":
            result["status"] = "late"
        elif not result["late"] and result["status"] == "late":
            result["status"] = "graded"


def default_out(exercise_id: str) -> Path:
    """Return where results go if nothing is said."""
    return Path("graded") / exercise_id
