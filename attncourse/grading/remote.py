"""The transport of the graded run: every call goes to a worker in its sandbox.

The one idea: time and deaths are booked on a question. When a question hangs, dies or eats all
memory, its worker is replaced by a fresh one and the other questions are graded as if nothing was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attncourse.grading.accounts import FREE, FREE_CELLS, Account
from attncourse.grading.backends import SandboxError
from attncourse.grading.cells import Cell, imports_of
from attncourse.grading.inside.wire import StudentError, WireError, encode
from attncourse.grading.sandbox import WALL, Died, Killed, Sandbox, TimedOut

__all__ = ["SandboxTransport"]


class SandboxTransport:
    """The learner's namespace, out of reach.

    Parameters
    ----------
    start : callable
        Starts a fresh `Sandbox`.
    cells : sequence of Cell
        What is run in it first.
    budgets : mapping of str to float
        Seconds for each question, answers' cells and calls together.
    free_seconds : float
        For each cell that belongs to no question; three times as much for all of them together.

    Attributes
    ----------
    accounts : dict of str to Account
        What each question used and how it went; "" is for the cells of no question.
    reports : dict of int to dict
        What each cell's first run gave: `error`, `output`, `seconds`.
    broken : str
        Why nothing can be graded here; empty if nothing of ours failed.
    """

    def __init__(
        self,
        start: Callable[[], Sandbox],
        cells: Sequence[Cell],
        budgets: Mapping[str, float],
        free_seconds: float = 30.0,
    ) -> None:
        self.accounts = {name: Account(float(seconds)) for name, seconds in budgets.items()}
        free = float(free_seconds)
        self.accounts[FREE] = Account(FREE_CELLS * free, each=free)
        self.reports: dict[int, dict[str, Any]] = {}
        self.broken = ""
        # Running cells again in a fresh worker is free, but not without end: code that is quick at
        # first and slow when it is run again would hold the grader for hours.
        self.replay_left = WALL * sum(account.seconds for account in self.accounts.values())
        self.killed = False  # by somebody else: what was booked since then may be untrue
        self._start, self._cells = start, list(cells)
        self._guilty: set[int] = set()
        self._sandbox: Sandbox | None = None
        self._generation = (
            0  # which worker lives: a fresh one does not know the older ones' objects
        )
        self._objects: list[tuple[int, int]] = []  # of this test: worker, number there
        self._floor: int | None = None  # memory of the worker before its cells ran
        self._account = self.accounts[FREE]
        self._heard = False  # the test that runs has had an answer

    def begin(self, question: str | None) -> None:
        """Book what follows on a question; None: on none."""
        self._account = self.accounts.get(question or FREE, self.accounts[FREE])
        self._heard, self._objects = False, []

    def ask(self, request: Mapping[str, Any]) -> Any:
        """Make one call in the worker and return its value.

        Raises
        ------
        StudentError
            If the learner's code fails, or may not be run any more.
        SandboxError
            If it is not the learner's fault.
        """
        kinds = {"new": self._new, "grad": self._grad, "measure": self._measure}
        return kinds.get(request["do"], self._call)(dict(request))

    def close(self) -> None:
        """End the worker."""
        if self._sandbox is not None:
            self._sandbox.kill()
            self._sandbox = None

    def _new(self, request: dict[str, Any]) -> int:
        """Make an object; return its number among those of this test."""
        number = self._call(request)
        self._objects.append((self._generation, number if isinstance(number, int) else -1))
        return len(self._objects) - 1

    def _grad(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask for gradients and see that they are those that were asked for."""
        grads = self._call(request)
        if not isinstance(grads, dict) or set(grads) != set(request["wrt"]):
            raise StudentError("the gradients cannot be read")
        return grads

    def _measure(self, request: dict[str, Any]) -> tuple[Any, int]:
        """Make a call; return its result and the memory it took, seen from outside the worker.

        A fresh worker is measured, with the notebook's imports and its answers only: what the
        answers keep counts, experiments do not. If an answer needs more of the notebook, all cells
        run, and what they keep counts too. Objects that a test has made before are gone.
        """
        self._prepared()  # every cell has had its first run
        own = [cell for cell in self._cells if cell.question]
        try:
            try:
                return self._measured(request, own)
            except StudentError:
                if self._sandbox is None or len(own) == len(self._cells):
                    raise
                return self._measured(request, self._cells)
        finally:
            self.close()

    def _measured(self, request: dict[str, Any], cells: Sequence[Cell]) -> tuple[Any, int]:
        """Measure a call in a fresh worker that has run some of the cells."""
        self.close()
        sandbox = self._prepared(cells, imports_of(self._cells))
        base = self._floor
        sandbox.reset_peak()  # where the kernel refuses, it counts what cells had and gave back
        value = self._call({**request, "do": "call"})
        assert self._sandbox is not None
        peak = self._sandbox.peak_bytes()
        if self._sandbox.baseline is None:
            backend = self._sandbox.isolation.backend
            self.broken = f"the memory of a {backend} worker cannot be seen from outside"
            raise SandboxError(self.broken)
        # It could be seen before: the worker has ended right after its reply.
        if peak is None or base is None:
            self.close()
            self._account.book_end("died", "the process ended early: right after its reply")
            raise StudentError(self._account.notes[-1])
        return value, max(0, peak - base)

    def _call(self, request: dict[str, Any]) -> Any:
        """Make one call in the worker."""
        if "handle" in request:
            request["handle"] = self._number(request["handle"])
        self._prepared()
        left = self._account.left()  # its cells may have used some
        self._sendable(request)
        try:
            reply = self._send(request, self._account, left)
        except (TimedOut, Died):
            raise StudentError(self._account.notes[-1]) from None
        self._heard = True
        if reply["ok"]:
            return reply.get("value")
        if reply.get("kind") == "memory":
            self._account.book_memory(request["name"])
        raise StudentError(reply["text"][:1000])

    def _number(self, handle: int) -> int:
        """Return an object's number in the worker that lives."""
        generation, number = self._objects[handle]
        if generation != self._generation or self._sandbox is None:
            raise StudentError("the object is gone: the process that held it has ended")
        return number

    def _sendable(self, request: Mapping[str, Any]) -> None:
        """Refuse what cannot cross: the learner's doing if the test has had an answer before."""
        try:
            encode(request)
        except (TypeError, ValueError) as error:
            if not self._heard:
                raise
            text = f"what came before cannot be given to {request['name']}: {error}"
            raise StudentError(text[:1000]) from None

    def _send(self, request: dict[str, Any], account: Account, seconds: float) -> dict[str, Any]:
        """Send a request; book its time, and its end if the worker does not live through it."""
        assert self._sandbox is not None
        sandbox, before, began = self._sandbox, self._sandbox.received, time.monotonic()
        worked = sandbox.processor_seconds()
        try:
            reply = sandbox.ask(request, seconds if worked is None else WALL * seconds, seconds)
        except BaseException as error:
            self._sandbox = None
            self.killed |= isinstance(error, Killed)
            self._book(account, error)
            if isinstance(error, (TimedOut, Died)) or not isinstance(error, Exception):
                raise
            raise Died(str(error)) from None
        finally:
            # By the clock a busy machine is slow; a worker that waits pays a part of what it waits.
            spent, now = time.monotonic() - began, sandbox.processor_seconds()
            least = spent if worked is None else spent / WALL
            account.used += least if worked is None or now is None else max(now - worked, least)
            account.received += sandbox.received - before
        return reply

    @staticmethod
    def _book(account: Account, error: BaseException) -> None:
        """Book why a worker ended."""
        if isinstance(error, TimedOut):
            account.book_time_out()
        elif isinstance(error, Died):
            account.book_end("died", f"the process ended early: {error}")
        elif isinstance(error, WireError):
            account.book_end("died", f"the process sent something unreadable: {error}")
        elif isinstance(error, Exception):
            # Learner code has run: whatever its reply does to us must not undo its grade.
            problem = f"{type(error).__name__}: {error}"[:300]
            account.book_end("died", f"the process sent what cannot be used: {problem}")

    def _prepared(self, cells: Sequence[Cell] | None = None, imports: str = "") -> Sandbox:
        """Return a worker that lives and in which every innocent cell has run.

        Parameters
        ----------
        cells : sequence of Cell, optional
            Those that run; all by default.
        imports : str
            What is imported before them: `_floor` is the memory of a worker that has done that.
        """
        self._account.left()
        while self._sandbox is None:
            try:
                self._sandbox = self._start()
            except SandboxError as error:
                self.broken = str(error)
                raise
            self._generation += 1
            if imports and not self._lives_through(imports):
                imports = ""
                continue
            self._floor = self._sandbox.resident_bytes()
            if not all(self._run_cell(cell) for cell in (self._cells if cells is None else cells)):
                self._sandbox = None
        return self._sandbox

    def _lives_through(self, imports: str) -> bool:
        """Run the imports; return False if the worker did not live through them."""
        account = self.accounts[FREE]
        used = account.used
        try:
            self._send({"do": "cell", "source": imports}, account, account.each or account.seconds)
        except (TimedOut, Died):
            return False
        finally:
            account.used = used
        return True

    def _run_cell(self, cell: Cell) -> bool:
        """Run one cell; return False if the worker did not live through it."""
        if cell.number in self._guilty:
            return True
        account, before = self.accounts[cell.question or FREE], self.reports.get(cell.number)
        used, began = account.used, time.monotonic()
        try:
            seconds = self._replay_seconds(before) if before else account.left()
            reply = self._send({"do": "cell", "source": cell.source}, account, seconds)
        except StudentError as error:
            account.notes += [f"cell {cell.number}: {error}"] if before else []
            self._skip(cell, str(error), 0.0)
            return True
        except (TimedOut, Died):
            self._skip(cell, account.notes[-1], time.monotonic() - began)
            return False
        finally:
            self.replay_left -= time.monotonic() - began if before else 0.0
        if before:
            account.used = used  # a second run in a fresh worker costs the learner nothing
        else:
            self._report(cell, account, reply, time.monotonic() - began)
        return True

    def _replay_seconds(self, report: Mapping[str, Any]) -> float:
        """Return how long a cell may take when it is run again."""
        if self.replay_left <= 0:
            raise StudentError("not run again: fresh starts have taken too long")
        return min(3 * report["seconds"] + 2, self.replay_left)

    def _skip(self, cell: Cell, why: str, seconds: float) -> None:
        """Leave a cell out from now on."""
        self._guilty.add(cell.number)
        # When it is run again, tests have been asked: how it ends then could tell their numbers to
        # its author. So what its first run gave is what stays.
        self.reports.setdefault(cell.number, {"error": why, "output": "", "seconds": seconds})

    def _report(self, cell: Cell, account: Account, reply: Any, seconds: float) -> None:
        """Keep what a cell's first run gave."""
        value = reply["value"] if reply["ok"] else {"error": reply["text"]}
        if value.get("memory") is True:
            account.book_memory(f"cell {cell.number}")
        texts = {key: value.get(key, "")[:4096] for key in ("error", "output")}
        self.reports[cell.number] = {**texts, "seconds": seconds}
