"""`student`: what a test calls, wherever the learner's code runs.

The one idea: every question of a test is one request, a transport answers it, and what was asked
and given is written down on the way, so that a known mistake can be asked the same later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from attncourse.grading.inside.wire import StudentError, plain

__all__ = ["Asked", "Handle", "Student", "Transport"]


class Transport(Protocol):
    """Who answers: the learner's own process, or a worker in its sandbox."""

    def begin(self, question: str | None) -> None:
        """Start a test of a question; None when it has ended."""

    def ask(self, request: Mapping[str, Any]) -> Any:
        """Answer a request, see `attncourse.grading.inside.calls.Calls.answer`."""


@dataclass
class Asked:
    """One request of a test and what it gave.

    Parameters
    ----------
    request : dict
        See `attncourse.grading.inside.calls.Calls.answer`.
    given : object
        What came back, plain; None if the call failed, or where memory was measured.
    failed : bool
        Whether it failed.
    broken : bool
        Whether it failed for another reason than the learner's code.
    """

    request: dict[str, Any]
    given: Any = None
    failed: bool = True
    broken: bool = False


class Student:
    """The learner's functions: `student.softmax(scores)` calls the one of that name.

    Parameters
    ----------
    transport : Transport
        Who answers.
    trace : list of Asked
        Where each request is written down.
    """

    def __init__(self, transport: Transport, trace: list[Asked]) -> None:
        self._transport, self._trace = transport, trace

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a function that calls the learner's function."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self._ask("call", name=name, args=args, kwargs=kwargs)

    def new(self, name: str, /, *args: Any, **kwargs: Any) -> Handle:
        """Make an object of a learner's class."""
        return Handle(self._ask, self._ask("new", name=name, args=args, kwargs=kwargs))

    def grad(self, name: str, /, wrt: Sequence[str], cotangent: Any = None, **kwargs: Any) -> Any:
        """Return gradients, see `attncourse.grading.inside.calls.Calls.grad`."""
        return self._ask("grad", name=name, wrt=list(wrt), cotangent=cotangent, kwargs=kwargs)

    def measure(self, name: str, /, *args: Any, **kwargs: Any) -> tuple[Any, int]:
        """Return a call's result and the most memory, in bytes, that it took on the way."""
        return self._ask("measure", name=name, args=args, kwargs=kwargs)

    def changed(self, name: str, /, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Return a call's result and which arguments it changes in place, see `Calls.changed`.

        Raises
        ------
        StudentError
            If what came back is no such pair: the learner's side may say anything.
        """
        came = self._ask("changed", name=name, args=args, kwargs=kwargs)
        if not isinstance(came, (list, tuple)) or len(came) != 2:
            raise StudentError("what the call changes cannot be read")
        return came[0], came[1]

    def _ask(self, do: str, **request: Any) -> Any:
        """Send one request; a test may change what it was given."""
        asked = Asked({"do": do, **request})
        self._trace.append(asked)
        try:
            value = self._transport.ask(asked.request)
        except StudentError:
            raise
        except BaseException:
            asked.broken = True
            raise
        asked.given, asked.failed = None if do == "measure" else plain(value), False
        return value


class Handle:
    """An object of a learner's class: its methods can be called, `get` reads an attribute.

    Parameters
    ----------
    ask : callable
        Sends a request.
    number : int
        Which object of its test it is.
    """

    def __init__(self, ask: Callable[..., Any], number: int) -> None:
        self._ask, self._number = ask, number

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a function that calls the method."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self._ask(
            "method", handle=self._number, name=name, args=args, kwargs=kwargs
        )

    def get(self, name: str) -> Any:
        """Return an attribute's value."""
        return self._ask("attribute", handle=self._number, name=name)
