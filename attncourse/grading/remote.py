"""`student` for the graded run: every call goes to a worker in its sandbox.

The one idea: time and deaths are booked on a question. When a question hangs, dies or eats all
memory, its worker is replaced by a fresh one and the other questions are graded as if nothing was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attncourse.grading.backends import SandboxError
from attncourse.grading.cells import Cell
from attncourse.grading.sandbox import Died, Sandbox, TimedOut
from attncourse.grading.wire import StudentError, WireError, encode

__all__ = ["Handle", "RemoteStudent"]

MOST_BYTES = 64 << 20  # tests keep what they are given: so much of it a question may send
FREE = ""  # where the time of cells that belong to no question is booked


@dataclass
class Account:
    """What a question has used up.

    Parameters
    ----------
    seconds : float
        Budget.
    """

    seconds: float
    used: float = 0.0
    deaths: int = 0
    received: int = 0
    status: str = "graded"
    notes: list[str] = field(default_factory=list)


class Handle:
    """An object that lives in the worker: only its methods can be called.

    Parameters
    ----------
    student : RemoteStudent
        Who made it.
    number : int
        Its number in the worker.
    generation : int
        Which worker that is: a fresh one does not know the object.
    """

    def __init__(self, student: RemoteStudent, number: int, generation: int) -> None:
        self._student, self._number, self._generation = student, number, generation

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a function that calls the method."""
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self._ask("method", name, args, kwargs)

    def get(self, name: str) -> Any:
        """Return an attribute's value."""
        return self._ask("attribute", name, (), {})

    def _ask(self, do: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Send one request about this object."""
        if self._generation != self._student._generation or self._student._sandbox is None:
            raise StudentError("the object is gone: the process that held it has ended")
        return self._student._request(do, name, args, kwargs, handle=self._number)


class RemoteStudent:
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
        For all cells that belong to no question, together.
    max_deaths : int
        After so many deaths of its worker a question is given up.
    """

    def __init__(
        self,
        start: Callable[[], Sandbox],
        cells: Sequence[Cell],
        budgets: Mapping[str, float],
        free_seconds: float = 30.0,
        max_deaths: int = 3,
    ) -> None:
        self._start, self._cells, self._max_deaths = start, list(cells), max_deaths
        self._accounts = {name: Account(float(seconds)) for name, seconds in budgets.items()}
        self._accounts[FREE] = Account(float(free_seconds))
        # Running cells again in a fresh worker is free, but not without end: code that is quick at
        # first and slow when it is run again would hold the grader for hours.
        self._replay_left = sum(account.seconds for account in self._accounts.values())
        self._guilty: set[int] = set()
        self._reports: dict[int, dict[str, Any]] = {}
        self._sandbox: Sandbox | None = None
        self._generation = 0
        self._question = FREE
        self._heard = False  # the test that runs has had an answer
        self._broken = ""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a function that calls the learner's function."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self._request("call", name, args, kwargs)

    def new(self, name: str, *args: Any, **kwargs: Any) -> Handle:
        """Make an object of a learner's class."""
        number = self._request("new", name, args, kwargs)
        return Handle(self, number if isinstance(number, int) else -1, self._generation)

    def grad(self, name: str, wrt: Sequence[str], cotangent: Any = None, **kwargs: Any) -> Any:
        """Return gradients, see `attncourse.grading.calls.Calls.grad`."""
        extra = {"wrt": list(wrt), "cotangent": cotangent}
        grads = self._request("grad", name, (), kwargs, **extra)
        if not isinstance(grads, dict) or set(grads) != set(wrt):
            raise StudentError("the gradients cannot be read")
        return grads

    def measure(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, int]:
        """Return a call's result and the memory that this call took, seen from outside the worker.

        Returns
        -------
        value : object
            The result.
        peak_bytes : int
            Largest resident memory of the worker during the call, less what it had before: what
            the notebook imported or made earlier does not count.

        Notes
        -----
        Where the kernel does not let us start the peak again, a fresh worker is measured. Its peak
        includes what its cells had and gave back.
        """
        self._left(self._question)
        self._prepare()
        assert self._sandbox is not None
        if self._sandbox.baseline is not None and not self._sandbox.reset_peak():
            self._close()
            self._prepare()
        base = self._sandbox.resident_bytes()
        value = self._request("call", name, args, kwargs)
        assert self._sandbox is not None
        peak = self._sandbox.peak_bytes()
        if self._sandbox.baseline is None:
            backend = self._sandbox.walls.backend
            self._broken = f"the memory of a {backend} worker cannot be seen from outside"
            raise SandboxError(self._broken)
        if (
            peak is None or base is None
        ):  # it could be seen before: the worker has ended right after its reply
            account = self._accounts[self._question]
            self._sandbox.kill()
            self._book_end(account, "died", "the process ended early: right after its reply")
            raise StudentError(account.notes[-1])
        return value, max(0, peak - base)

    def _begin(self, nodeid: str, question: str | None) -> None:
        """Book what follows on a question."""
        self._question = question if question in self._accounts else FREE
        self._heard = False

    def _end(self) -> None:
        """Stop booking on a question."""
        self._question = FREE

    def _statuses(self) -> dict[str, Account]:
        """Return what each question used and how it went."""
        return self._accounts

    def _close(self) -> None:
        """End the worker."""
        if self._sandbox is not None:
            self._sandbox.kill()
            self._sandbox = None

    def _left(self, question: str) -> float:
        """Return the seconds that a question has left; raise if there are none."""
        account = self._accounts[question]
        left = account.seconds - account.used
        if left <= 0:
            raise StudentError(f"not run: the time limit of {account.seconds:g} s is used up")
        if account.received > MOST_BYTES:
            raise StudentError("not run: the results so far are too large together")
        if account.deaths >= self._max_deaths:
            raise StudentError(f"not run: the process ended {account.deaths} times before")
        return left

    def _ask(self, request: dict[str, Any], question: str, seconds: float) -> dict[str, Any]:
        """Send a request; book its time, and its end if the worker does not live through it."""
        assert self._sandbox is not None
        account, began = self._accounts[question], time.monotonic()
        sandbox, before = self._sandbox, self._sandbox.received
        try:
            return sandbox.ask(request, seconds)
        except TimedOut:
            self._book_end(account, "timeout", f"time limit of {account.seconds:g} s is over")
            account.used = account.seconds
            raise
        except Died as error:
            self._book_end(account, "died", f"the process ended early: {error}")
            raise
        except WireError as error:
            self._book_end(account, "died", f"the process sent something unreadable: {error}")
            raise Died(str(error)) from None
        except Exception as error:
            # Learner code has run: whatever its reply does to us must not undo its grade.
            problem = f"{type(error).__name__}: {error}"[:300]
            self._book_end(account, "died", f"the process sent what cannot be used: {problem}")
            raise Died(problem) from None
        except BaseException:
            self._sandbox = None
            raise
        finally:
            account.used += time.monotonic() - began
            account.received += sandbox.received - before

    def _book_end(self, account: Account, status: str, note: str) -> None:
        """Book the end of a worker."""
        self._sandbox = None
        account.deaths += 1
        account.status = status
        account.notes.append(note)

    def _prepare(self) -> None:
        """Make sure that a worker lives in which every innocent cell has run."""
        while self._sandbox is None:
            try:
                self._sandbox = self._start()
            except SandboxError as error:
                self._broken = str(error)
                raise
            self._generation += 1
            if not all(self._run_cell(cell) for cell in self._cells):
                self._sandbox = None

    def _run_cell(self, cell: Cell) -> bool:
        """Run one cell; return False if the worker did not live through it."""
        if cell.number in self._guilty:
            return True
        question = cell.question or FREE
        again = self._reports.get(cell.number)
        account = self._accounts[question]
        try:
            seconds = self._replay_seconds(again) if again else self._left(question)
        except StudentError as error:
            self._skip(cell, str(error), 0.0)
            return True
        began, used = time.monotonic(), account.used
        try:
            reply = self._ask({"do": "cell", "source": cell.source}, question, seconds)
        except (TimedOut, Died):
            self._replay_left -= time.monotonic() - began if again else 0.0
            self._skip(cell, account.notes[-1], time.monotonic() - began)
            return False
        if again:
            account.used = used  # a second run in a fresh worker costs the learner nothing
            self._replay_left -= time.monotonic() - began
            return True
        self._report(cell, account, reply, time.monotonic() - began)
        return True

    def _skip(self, cell: Cell, why: str, seconds: float) -> None:
        """Leave a cell out from now on."""
        self._guilty.add(cell.number)
        self._reports[cell.number] = {"error": why, "output": "", "seconds": seconds}

    def _replay_seconds(self, report: Mapping[str, Any]) -> float:
        """Return how long a cell may take when it is run again."""
        if self._replay_left <= 0:
            raise StudentError("not run again: fresh starts have taken too long")
        return min(3 * report["seconds"] + 2, self._replay_left)

    def _report(self, cell: Cell, account: Account, reply: Any, seconds: float) -> None:
        """Keep what a cell's first run gave."""
        said = reply["value"] if reply["ok"] else {"error": reply["text"]}
        if said.get("memory") is True:
            account.status = "memory"
            account.notes.append(f"cell {cell.number} needed more memory than there is")
        texts = {key: said.get(key, "")[:4096] for key in ("error", "output")}
        self._reports[cell.number] = {**texts, "seconds": seconds}

    def _request(
        self, do: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], **extra: Any
    ) -> Any:
        """Make one call in the worker and return its value."""
        self._left(self._question)
        self._prepare()
        left = self._left(self._question)  # its cells may have used some
        account = self._accounts[self._question]
        request = {"do": do, "name": name, "args": list(args), "kwargs": dict(kwargs), **extra}
        self._sendable(request)
        try:
            reply = self._ask(request, self._question, left)
        except (TimedOut, Died):
            raise StudentError(account.notes[-1]) from None
        self._heard = True
        if reply["ok"]:
            return reply.get("value")
        if reply.get("kind") == "memory":
            account.status = "memory"
            account.notes.append(f"{name} needed more memory than there is")
        raise StudentError(reply["text"][:1000])

    def _sendable(self, request: dict[str, Any]) -> None:
        """Refuse what cannot cross: the learner's doing if the test has had an answer before."""
        try:
            encode(request)
        except (TypeError, ValueError) as error:
            if not self._heard:
                raise
            text = f"what came before cannot be given to {request['name']}: {error}"
            raise StudentError(text[:1000]) from None
