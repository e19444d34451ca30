"""Grade a folder of submissions: plan, run, file, report.

The one idea: every learner ends in exactly one row, whatever happens on the way, and what has been
graded is filed at once, so that an interruption costs nothing but the jobs that were running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from attncourse.grading.backends import Walls, refuse_exposure
from attncourse.grading.grade import Job, blank, environment
from attncourse.grading.jobs import Outcome, local
from attncourse.grading.late import factor, lateness
from attncourse.grading.points import exact, shown
from attncourse.grading.roster import Learner, Pair, join
from attncourse.grading.store import Store, job_key
from attncourse.grading.submissions import Unreadable, find

__all__ = ["Batch", "Options", "walls_for"]

# Address space that the libraries take before any learner code runs, rounded up.
NUMPY_MB, TORCH_MB = 256, 1536


@dataclass(frozen=True)
class Options:
    """What to grade and how.

    Parameters
    ----------
    submissions, exercise, out : str
        Folder or zip of submissions, folder of the exercise, folder for the results.
    roster : sequence of Learner or None
        Who is on the course.
    backend : str
        One that `choose` has agreed to.
    image : str
        Image of a container.
    workers : int
        How many submissions are graded at the same time.
    resume : bool
        Keep results that still hold.
    due : datetime or None
        After it a submission is late.
    seed : int or None
        Secret of the course.
    time_factor : float
        Multiplies all time limits.
    executor : str
        `local` or `dask`.
    scheduler : str
        Address of a dask cluster; empty: one on this machine.
    """

    submissions: str
    exercise: str
    out: str
    roster: Sequence[Learner] | None = None
    backend: str = "bwrap"
    image: str = "attncourse-grading"
    workers: int = 2
    resume: bool = False
    due: datetime | None = None
    seed: int | None = None
    time_factor: float = 1.0
    executor: str = "local"
    scheduler: str = ""


def walls_for(exercise: Any, backend: str, image: str, time_factor: float = 1.0) -> Walls:
    """Return the walls that an exercise's limits ask for."""
    base = TORCH_MB if "torch" in exercise.callables.values() else NUMPY_MB
    memory = int(max(question.memory_mb for question in exercise.questions) + base) << 20
    seconds = sum(float(question.seconds) for question in exercise.questions) * time_factor
    return Walls(
        backend=backend,
        memory_bytes=memory,
        cpu_seconds=int(seconds + 60),
        image=image,
        real_package=exercise.real_package,
    )


@dataclass
class Batch:
    """One run over all submissions.

    Parameters
    ----------
    options : Options
        What to grade.
    exercise : Exercise
        The exercise, loaded.
    """

    options: Options
    exercise: Any
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    pairs: dict[str, Pair] = field(default_factory=dict)
    kept: int = 0

    def __post_init__(self) -> None:
        """Find the submissions and make the output folder."""
        options = self.options
        found = find(options.submissions)
        secrets = [self.exercise.path, options.submissions, options.out]
        refuse_exposure(secrets, options.backend)
        self.pairs = {pair.student: pair for pair in join(found, options.roster)}
        self.store = Store(options.out)
        self.walls = walls_for(self.exercise, options.backend, options.image, options.time_factor)

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
        yield from local(jobs, options.workers, self._patience())

    def _patience(self) -> float:
        """Return after how many seconds a job process is taken to hang."""
        budgets = sum(float(question.seconds) for question in self.exercise.questions)
        return 3 * (budgets + 60) * self.options.time_factor + 120

    def _jobs(self, tell: Callable[[dict[str, Any]], None]) -> Iterator[Job]:
        """Yield what has to be run; file at once what has not."""
        for student, pair in self.pairs.items():
            try:
                data = pair.submission.read() if pair.submission else None
            except Unreadable as error:
                self._file(blank(student, self.exercise, "invalid_notebook", str(error)), tell)
                continue
            if data is None:
                self._file(blank(student, self.exercise, "missing", "nothing was handed in"), tell)
                continue
            job = Job(student, data, str(self.exercise.path), self.walls, self.options.seed)
            old = self.store.done(student, job_key(job)) if self.options.resume else None
            if old is None:
                yield job
            else:
                self.kept += 1
                self._file(old, tell)

    def _file(self, result: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> None:
        """Add what is known about the submission from outside, and write the result."""
        pair = self.pairs[result["student"]]
        one = pair.submission
        result.setdefault("environment", environment())
        result.setdefault("isolation", self.walls.backend)
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
        late = lateness(one.modified if one else None, self.options.due)
        result["late_seconds"] = round(late.total_seconds())
        result["late"] = bool(late) or bool(one and one.marked_late)
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
