"""Grade many submissions at once, in processes that may die.

The one idea: a job process takes one job at a time over a pipe of JSON lines. If it dies or
hangs, the job is tried once more in a new one; then it is an error of the grader, for that one
submission only.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from attncourse.grading.bounds import bounded_memory
from attncourse.grading.grade import Job, grade
from attncourse.grading.settings import Settings
from attncourse.grading.spawn import python

__all__ = ["Outcome", "job_from_text", "job_to_text", "local"]

Grade = Callable[[Job], dict[str, Any]]


class Outcome(NamedTuple):
    """What became of a job: a result, or why there is none."""

    job: Job
    result: dict[str, Any] | None
    problem: str = ""


def job_to_text(job: Job) -> str:
    """Write a job as one line of JSON."""
    fields = asdict(replace(job, data=b""))
    return json.dumps({**fields, "data": base64.b64encode(job.data).decode()})


def job_from_text(text: str) -> Job:
    """Read a job from a line of JSON."""
    fields = json.loads(text)
    fields["data"] = base64.b64decode(fields["data"])
    return Job(**{**fields, "settings": Settings(**fields["settings"])})


def serve() -> None:
    """Grade what comes in on standard input, one line a job: the loop of a job process."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    for line in sys.stdin:
        job = job_from_text(line)
        with bounded_memory():
            result = grade(job)
        replies.write(json.dumps(result) + "\n")
        replies.flush()


class _Process:
    """One job process."""

    def __init__(self) -> None:
        one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
        code = "from attncourse.grading.jobs import serve; serve()"
        words, environment = python(code, **one_thread)
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the batch, which ends its processes itself
            env=environment,
        )
        self.job: Job | None = None
        self.until = 0.0
        self.got = b""

    def give(self, job: Job, seconds: float) -> None:
        """Hand over a job."""
        self.job, self.until, self.got = job, time.monotonic() + seconds, b""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(job_to_text(job).encode() + b"\n")
            self.process.stdin.flush()

    def take(self) -> dict[str, Any] | None:
        """Read what there is; return the result once it is whole.

        Raises
        ------
        EOFError
            If the process has ended.
        """
        assert self.process.stdout is not None
        part = os.read(self.process.stdout.fileno(), 1 << 20)
        if not part:
            raise EOFError(f"the job process ended with status {self.process.wait()}")
        self.got += part
        return json.loads(self.got) if self.got.endswith(b"\n") else None

    def end(self) -> None:
        """Kill it; its sandbox dies with it."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


class _Pool:
    """Job processes and the jobs that they have."""

    def __init__(self, jobs: Iterable[Job], workers: int, seconds: float) -> None:
        self.waiting = iter(jobs)
        self.seconds = seconds
        self.again: list[Job] = []
        self.tried: set[str] = set()
        self.idle = [_Process() for _ in range(workers)]
        self.busy: dict[int, _Process] = {}

    def hand_out(self) -> None:
        """Give every idle process a job, while there are any."""
        while self.idle:
            job = self.again.pop() if self.again else next(self.waiting, None)
            if job is None:
                return
            process = self.idle.pop()
            process.give(job, self.seconds)
            assert process.process.stdout is not None
            self.busy[process.process.stdout.fileno()] = process

    def collect(self) -> Iterator[Outcome]:
        """Wait a moment; yield what is done."""
        poll = select.poll()
        for number in self.busy:
            poll.register(number, select.POLLIN)
        for number, _ in poll.poll(200):
            process = self.busy[number]
            try:
                result = process.take()
            except (EOFError, ValueError) as error:
                yield from self._lost(number, str(error))
                continue
            if result is not None:
                del self.busy[number]
                self.idle.append(process)
                assert process.job is not None
                yield Outcome(process.job, result)
        for number, process in list(self.busy.items()):
            if time.monotonic() > process.until:
                yield from self._lost(number, f"nothing was heard for {self.seconds:.0f} s")

    def _lost(self, number: int, why: str) -> Iterator[Outcome]:
        """Replace a process; try its job again, once."""
        process = self.busy.pop(number)
        process.end()
        self.idle.append(_Process())
        assert process.job is not None
        if process.job.student in self.tried:
            yield Outcome(process.job, None, f"grading it failed twice: {why}")
        else:
            self.tried.add(process.job.student)
            self.again.append(process.job)

    def close(self) -> None:
        """End all processes."""
        for process in (*self.idle, *self.busy.values()):
            process.end()


def local(jobs: Iterable[Job], workers: int, seconds: float) -> Iterator[Outcome]:
    """Grade jobs on this machine.

    Parameters
    ----------
    jobs : iterable of Job
        Taken one by one, so that not all submissions are in memory at once.
    workers : int
        How many are graded at the same time.
    seconds : float
        After so long without a result a job process is taken to hang.

    Yields
    ------
    Outcome
        In the order in which they end.
    """
    pool = _Pool(jobs, workers, seconds)
    try:
        pool.hand_out()
        while pool.busy:
            yield from pool.collect()
            pool.hand_out()
    finally:
        pool.close()
