"""`attncourse grade one|batch|doctor`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncourse.grading.backends import BACKENDS, IMAGE

if TYPE_CHECKING:
    from attncourse.grading.exercise import Spec
    from attncourse.grading.settings import Settings

__all__ = ["add_command"]

NO_SANDBOX = 3  # exit status of `grade one` if no worker starts: no learner code has run then


def add_command(subparsers: Any) -> None:
    """Add `grade` to the command line.

    Parameters
    ----------
    subparsers : argparse subparsers
        Of `attncourse`.
    """
    top = subparsers.add_parser("grade", help="grade submissions in a sandbox")
    kinds = top.add_subparsers(dest="kind", required=True, metavar="KIND")
    one = kinds.add_parser("one", help="grade one notebook and print what it gets")
    one.add_argument("notebook")
    one.add_argument("--json", action="store_true", help="print the whole result as JSON")
    one.add_argument("--gradescope", metavar="FILE", help="write Gradescope's results.json there")
    one.set_defaults(run=_one)
    batch = kinds.add_parser("batch", help="grade a folder or a zip of submissions")
    batch.add_argument("submissions", help="folder, or bulk download of Canvas or Moodle")
    batch.add_argument(
        "--roster", help="CSV with a column id (and name, email, canvas_id, moodle_id)"
    )
    batch.add_argument("--out", help="folder for the results (default: graded/EXERCISE)")
    batch.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    batch.add_argument("--executor", choices=("local", "dask"), default="local")
    batch.add_argument("--scheduler", default="", help="address of a dask cluster")
    batch.add_argument("--resume", action="store_true", help="keep results that still hold")
    batch.add_argument(
        "--max-mb", type=int, default=64, metavar="N", help="size of a file that is read (64)"
    )
    batch.add_argument("--due", help="such as 2026-03-01T23:59:00+01:00; late after it")
    batch.set_defaults(run=_batch)
    for parser in (one, batch):
        _add_common(parser)
    doctor = kinds.add_parser("doctor", help="attack every backend on this machine")
    doctor.add_argument("--image", default=IMAGE, help="image for docker and podman")
    doctor.set_defaults(run=_doctor)
    bundle = kinds.add_parser("gradescope", help="make a Gradescope autograder")
    bundle.add_argument("--exercise", required=True)
    bundle.add_argument("--out", default="autograder.zip")
    bundle.set_defaults(run=_gradescope)


def _add_common(parser: argparse.ArgumentParser) -> None:
    """Add what `one` and `batch` share."""
    parser.add_argument("--exercise", required=True, help="folder of the exercise, or its id")
    parser.add_argument(
        "--private-dir", help="folder whose tests/hidden/ stands for the exercise's"
    )
    parser.add_argument("--backend", default="auto", choices=("auto", *BACKENDS))
    parser.add_argument("--image", default=IMAGE, help="image for docker and podman")
    parser.add_argument("--i-trust-these-submissions", dest="trusted", action="store_true")
    parser.add_argument("--seed-file", help="file with the secret number of the course")
    parser.add_argument("--time-factor", type=_factor, default=1.0, help="for a slow machine")
    parser.add_argument(
        "--free-seconds",
        type=_factor,
        metavar="S",
        help="for each cell of no question (default: the exercise's, else 30)",
    )


def _factor(text: str) -> float:
    """Read a number that time limits can be multiplied with."""
    from attncourse.grading.settings import MOST_FACTOR

    try:
        if 0 < (number := float(text)) <= MOST_FACTOR:
            return number
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(
        f"must be a number above 0 and at most {MOST_FACTOR}, got {text!r}"
    )


def _fail(error: object, status: int = 2) -> int:
    """Say what is wrong with the order itself."""
    print(f"attncourse grade: {error}", file=sys.stderr)
    return status


def _seed(path: str | None) -> int | None:
    """Read the secret seed from its file: on the command line every user could see it."""
    if path is None:
        return None
    text = Path(path).read_text(encoding="utf-8").strip()
    if not text.isdigit():
        raise ValueError(f"{path} must hold one whole number, the course's secret seed")
    return int(text)


def _backend(arguments: argparse.Namespace) -> str:
    """Pick the backend; `auto` takes the first that really starts a worker."""
    from attncourse.grading.backends import (
        AUTOMATIC,
        HOW_TO_GET,
        Isolation,
        SandboxError,
        choose,
    )
    from attncourse.grading.sandbox import Sandbox

    wanted, reasons, works = arguments.backend, [], []
    for name in AUTOMATIC if wanted == "auto" else ():
        try:
            choose(name)
            Sandbox(Isolation(name, image=arguments.image), {}).kill()
        except SandboxError as error:
            reasons.append(str(error).partition(f" {HOW_TO_GET}")[0])
            continue
        works.append(name)
        break
    try:
        return choose(wanted, arguments.trusted, works if wanted == "auto" else None)
    except SandboxError as error:
        tried = "\n  ".join(["", *reasons]) if reasons else ""
        raise SandboxError(f"{error}{tried}") from None


def _exercise(arguments: argparse.Namespace) -> Spec:
    """Load the exercise, with its private tests if there are some."""
    from attncourse.grading.exercise import load, load_to_grade
    from attncourse.grading.packing import with_private_tests

    if not arguments.private_dir:
        return load_to_grade(arguments.exercise)
    found = load(arguments.exercise)
    return load_to_grade(with_private_tests(found.path, arguments.private_dir))


def _settings(arguments: argparse.Namespace, exercise: Spec) -> Settings:
    """Return how submissions are graded: the same for one as for many."""
    from attncourse.grading.settings import FREE_SECONDS, Settings

    return Settings(
        exercise=str(exercise.path),
        backend=_backend(arguments),
        image=arguments.image,
        seed=_seed(arguments.seed_file),
        time_factor=arguments.time_factor,
        free_seconds=arguments.free_seconds or exercise.free_seconds or FREE_SECONDS,
    )


def _one(arguments: argparse.Namespace) -> int:
    """Grade one notebook."""
    from attncourse.grading.backends import SandboxError
    from attncourse.grading.bounds import bounded_memory
    from attncourse.grading.grade import Job, grade
    from attncourse.grading.sandbox import Sandbox

    try:
        exercise = _exercise(arguments)
        settings = _settings(arguments, exercise)
        # Try the sandbox before learner code runs.
        Sandbox(settings.isolation(exercise), exercise.callables).kill()
        data = Path(arguments.notebook).read_bytes()
    except SandboxError as error:
        return _fail(error, NO_SANDBOX)
    except (OSError, ValueError) as error:
        return _fail(error)
    job = Job(Path(arguments.notebook).stem, data, settings)
    with bounded_memory():
        result = grade(job)
    if arguments.gradescope and result["points"] is not None:
        from attncourse.grading.gradescope import results_json
        from attncourse.grading.store import write_atomically

        write_atomically(arguments.gradescope, results_json(result))
    print(json.dumps(result, indent=1, ensure_ascii=False) if arguments.json else _text(result))
    return 1 if result["status"] == "grader_error" else 0


def _text(result: dict[str, Any]) -> str:
    """Return a result for a terminal."""
    from attncourse.notebook.markup import visible

    points = "-" if result["points"] is None else result["points"]
    lines = [f"{result['student']}: {points} of {result['max']}, {result['status']}"]
    lines += [f"  {result['message']}"] if result["message"] else []
    for entry in result["questions"]:
        lines.append(f"  {entry['id']}: {entry['points']} of {entry['max']}, {entry['status']}")
        for test in entry["tests"]:
            if not test["passed"]:
                first = (test["message"].strip().splitlines() or [""])[0][:150]
                lines.append(f"    not passed: {test['test']}: {first}")
    return visible("\n".join(lines))


class _Progress:
    """A line that says how far it is and how long it takes."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.odd = total, 0, 0
        self.began = time.monotonic()
        self.live = sys.stderr.isatty()
        self.interrupted = False

    def interrupt(self, *_: Any) -> None:
        """Stop now, or at the next result if Python loses the exception in a destructor."""
        self.interrupted = True
        raise KeyboardInterrupt

    def __call__(self, result: dict[str, Any]) -> None:
        """Count one result."""
        self.done += 1
        if self.interrupted:
            raise KeyboardInterrupt
        self.odd += result["status"] not in ("graded", "late", "missing")
        seconds = time.monotonic() - self.began
        left = seconds / self.done * (self.total - self.done)
        line = f"{self.done}/{self.total} graded, {self.odd} to look at, about {left:.0f} s left"
        if self.live:
            end = "\n" if self.done == self.total else ""
            print(f"\r\x1b[K{line}", end=end, file=sys.stderr, flush=True)
        elif self.done == self.total or self.done % max(1, self.total // 10) == 0:
            print(line, file=sys.stderr, flush=True)


def _batch(arguments: argparse.Namespace) -> int:
    """Grade a folder."""
    from attncourse._needs import need
    from attncourse.grading.backends import SandboxError
    from attncourse.grading.batch import Batch, Options, default_out
    from attncourse.grading.late import when
    from attncourse.grading.rehearsal import rehearse
    from attncourse.grading.roster import read_roster

    if arguments.backend == "user":
        return _fail("--backend user is for `grade one`: users named nobody can end each other")
    need(*(["distributed"] if arguments.executor == "dask" else []))
    if arguments.max_mb < 1:
        return _fail(f"--max-mb must be at least 1, got {arguments.max_mb}")
    if arguments.jobs < 1:
        return _fail(f"--jobs must be at least 1, got {arguments.jobs}")
    try:
        exercise = _exercise(arguments)
        options = Options(
            settings=_settings(arguments, exercise),
            submissions=arguments.submissions,
            out=str(arguments.out or default_out(exercise.id)),
            roster=read_roster(arguments.roster) if arguments.roster else None,
            workers=arguments.jobs,
            resume=arguments.resume,
            due=when(arguments.due) if arguments.due else None,
            executor=arguments.executor,
            scheduler=arguments.scheduler,
            max_bytes=arguments.max_mb << 20,
        )
        batch = Batch(options, exercise)
        if not rehearse(batch):
            print(f"{exercise.id} has no source.ipynb here: its solution is not graded first")
    except (SandboxError, OSError, ValueError) as error:
        return _fail(error)
    return _run_batch(batch)


def _run_batch(batch: Any) -> int:
    """Run a batch, write its reports, say how it went."""
    from attncourse.grading.reports import write_reports
    from attncourse.notebook.markup import visible

    progress = _Progress(len(batch.pairs))
    before = signal.signal(signal.SIGINT, progress.interrupt)
    try:
        results = batch.run(progress)
    except KeyboardInterrupt:
        print(
            f"\ninterrupted: {progress.done} of {progress.total} are filed; add --resume to go on"
        )
        return 130
    finally:
        signal.signal(signal.SIGINT, before)
    write_reports(batch)
    failed = [name for name, result in results.items() if result["status"] == "grader_error"]
    seconds = time.monotonic() - progress.began
    print(
        f"{len(results)} students, {batch.kept} kept, {seconds:.1f} s, results in {batch.store.out}"
    )
    for name, result in results.items():
        if result["other_files"]:
            others = ", ".join(result["other_files"])
            print(visible(f"{name}: graded is {result['file']}, not graded: {others}"))
    for text in _joined(batch):
        print(visible(text))
    for name in map(visible, failed):
        print(f"not graded by our own fault (no points, not 0): {name}")
    return 1 if failed else 0


def _joined(batch: Any) -> list[str]:
    """Say what of the roster and of the submissions has no partner, and whose lateness is a guess.

    Names of those who handed in nothing are not listed: they stand in unmatched.csv.
    """
    lines = [
        f"{kind}: {who}" + (f" ({why})" if why else "")
        for kind, who, why in batch.unmatched
        if kind != "nothing matched"
    ]
    absent = sum(kind == "nothing matched" for kind, _, _ in batch.unmatched)
    if absent:
        sure = "no points, not 0, while others have no owner" if batch.doubtful else "0 points"
        lines.append(f"nothing was matched for {absent} of the roster ({sure}): see unmatched.csv")
    marked = [name for name, pair in batch.pairs.items() if _says_late_only(pair.submission)]
    if marked and batch.exercise.late:
        lines.append(f"marked late without a time, one day deducted: {', '.join(marked)}")
    no_time = [
        name
        for name, pair in batch.pairs.items()
        if (one := pair.submission) and one.modified is None and not one.told
    ]
    if no_time and batch.options.due:
        lines.append(f"no time is known, so nothing is deducted: {', '.join(no_time)}")
    return lines


def _says_late_only(one: Any) -> bool:
    """Tell whether a submission is known to be late, but not by how much."""
    return bool(one and one.marked_late)


def _doctor(arguments: argparse.Namespace) -> int:
    """Attack every backend."""
    from attncourse._needs import need
    from attncourse.grading.doctor import examine_all

    need("IPython", "pytest")
    findings, advice = examine_all(arguments.image)
    for one in findings:
        print(f"{one.backend}: {one.state}")
        for attack, outcome in one.details.items():
            print(f"  {attack}: {outcome}")
    print(advice)
    return 0 if advice.startswith("auto uses") else 1


def _gradescope(arguments: argparse.Namespace) -> int:
    """Make a Gradescope autograder."""
    from attncourse.grading.exercise import load_to_grade
    from attncourse.grading.gradescope import autograder
    from attncourse.grading.store import write_atomically

    try:
        bundle = autograder(load_to_grade(arguments.exercise))
    except ValueError as error:
        return _fail(error)
    write_atomically(arguments.out, bundle)
    print(f"{arguments.out}: upload it as the autograder of a programming assignment")
    return 0
