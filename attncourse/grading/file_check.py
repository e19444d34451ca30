"""`attncourse check FILE`: a learner's file, checked in a process of its own.

The one idea: a verdict is what the checks said, never how the process ended. If a step hangs or
takes the process with it, a fresh process runs everything else.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from attncourse.grading.cells import Cell, read_cells
from attncourse.grading.exercise import ExerciseError, Spec
from attncourse.grading.settings import FREE_SECONDS
from attncourse.grading.spawn import python

__all__ = ["Outcome", "check_file", "read_file"]

SLACK, START_SECONDS = 20.0, 120.0


class Outcome(NamedTuple):
    """What came of a step: a cell (its number) or the check of a question (its id)."""

    step: int | str
    text: str
    passed: bool = False


def read_file(path: Path, spec: Spec) -> list[Cell]:
    """Read the code of a notebook, as the grader does, or of a `.py` file.

    Parameters
    ----------
    path : Path
        The file.
    spec : Spec
        Its exercise.

    Returns
    -------
    list of Cell

    Raises
    ------
    InvalidNotebook, SyntaxError, UnicodeDecodeError, OSError
        If it cannot be read.
    """
    if path.suffix == ".py":
        with tokenize.open(path) as source:
            return [Cell(1, source.read())]
    return read_cells(path.read_bytes(), [each.id for each in spec.questions], spec.test_cells)


def check_file(
    path: Path, spec: Spec, questions: Sequence[str], hints: int = 1
) -> Iterator[Outcome]:
    """Run a file and check its answers.

    Parameters
    ----------
    path : Path
        Notebook or `.py` file.
    spec : Spec
        Its exercise.
    questions : sequence of str
        Whose public tests run.
    hints : int
        How many hints are open.

    Yields
    ------
    Outcome
        For each cell that fails, and for each question its report.

    Raises
    ------
    ExerciseError
        If a check itself fails.
    """
    cells = read_file(path, spec)
    budgets = {each.id: float(each.seconds) for each in spec.questions}
    seconds: dict[Any, float] = {name: budget + SLACK for name, budget in budgets.items()}
    free = spec.free_seconds or FREE_SECONDS
    seconds |= {each.number: budgets.get(each.question or "", free) for each in cells}
    order = {
        "exercise": str(spec.path),
        "hints": hints,
        "file": str(path),
        "cells": [(cell.number, cell.source) for cell in cells],
        "questions": list(questions),
    }
    yield from _check(order, seconds)


def _check(order: dict[str, Any], seconds: dict[Any, float]) -> Iterator[Outcome]:
    """Run steps in fresh processes until each question has been checked or given up."""
    done: set[Any] = set()  # what is not run again: it hung, ended the process, or is checked
    told: set[Any] = set()
    while not done.issuperset(order["questions"]):
        for outcome in _round({**order, "skip": list(done)}, seconds, done):
            if outcome.step not in told:
                told.add(outcome.step)
                yield outcome


def _round(order: dict[str, Any], seconds: dict[Any, float], done: set[Any]) -> Iterator[Outcome]:
    """Run what is left in one process, as far as it comes."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = _Process(order, folder)
        step, limit, begun = None, START_SECONDS, True
        try:
            while line := process.line(limit):
                message = json.loads(line)
                if "fault" in message:
                    raise ExerciseError(message["fault"])
                step, begun = message["step"], "text" not in message
                limit = seconds[step] if begun else SLACK
                if not begun:
                    done |= {step} & set(order["questions"])
                    yield Outcome(step, message["text"], message["passed"])
                if step == order["questions"][-1] and not begun:
                    return
        finally:
            process.end()
        if step is None:
            raise ExerciseError(f"the check did not start: {process.error_text}")
        done.add(step)
        if begun:
            late = f"stopped after {limit:g} s: does a loop never end?"
            why = late if line is None else "it ended Python itself, so it is left out"
            yield Outcome(step, why if isinstance(step, int) else f"{step}: {why}")


class _Process:
    """A process and the lines that it sends."""

    def __init__(self, order: dict[str, Any], folder: str) -> None:
        self.errors: IO[bytes] = tempfile.TemporaryFile()
        code = "from attncourse.grading.file_process import main; main()"
        words, environment = python(code, IPYTHONDIR=folder, MPLBACKEND="Agg")
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=environment,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.close()
        self.lines: queue.Queue[bytes] = queue.Queue()
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        self.error_text = ""

    def _listen(self) -> None:
        """Take lines until the process has ended."""
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if line.endswith(b"\n"):  # the last one may be a part
                    self.lines.put(line)

    def line(self, seconds: float) -> bytes | None:
        """Return the next line; an empty one if none can come; None if none came in time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ended = self.process.poll() is not None
            try:
                return self.lines.get(timeout=0.5 if ended else 0.1)
            except queue.Empty:
                if ended:
                    return b""
        return None

    def end(self) -> None:
        """Kill it, and on Unix whatever it has started."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self.listener.join(5)
        self.errors.seek(0)
        self.error_text = self.errors.read()[-500:].decode("utf-8", "replace").strip()
        self.errors.close()
