"""`student` for the instant check: the learner's own process, and a memory of every call.

The one idea: each call is written down with what it gave. Known mistakes are asked the same
questions later, and a mistake that gives the same answers is named.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attncourse.grading import calls
from attncourse.grading.calls import Calls
from attncourse.grading.wire import StudentError, plain

__all__ = ["Asked", "LocalHandle", "LocalStudent", "same"]

_CALLS = calls.__file__


@dataclass
class Asked:
    """One call and what it gave.

    Parameters
    ----------
    do : str
        A method of `Calls`.
    args : tuple
        Its arguments.
    given : object
        What came back; a `StudentError` if the call failed.
    """

    do: str
    args: tuple[Any, ...]
    given: Any = None


@dataclass
class LocalHandle:
    """An object of a learner's class: its methods can be called, `get` reads an attribute."""

    _student: LocalStudent
    _number: int

    def __getattr__(self, name: str) -> Any:
        """Return a function that calls the method."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self._student._ask(
            "method", self._number, name, args, kwargs
        )

    def get(self, name: str) -> Any:
        """Return an attribute's value."""
        return self._student._ask("attribute", self._number, name)


@dataclass
class LocalStudent:
    """The learner's live names, called in this process.

    Parameters
    ----------
    namespace : mapping
        Name -> function or class.
    arrays : mapping
        Name -> `numpy` or `torch`, see `Calls`.
    """

    _namespace: Mapping[str, Any]
    _arrays: Mapping[str, str] = field(default_factory=dict)
    _traces: dict[str, list[Asked]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Start with an empty memory."""
        self._calls = Calls(self._namespace, self._arrays)
        self._trace: list[Asked] = []

    def __getattr__(self, name: str) -> Any:
        """Return a function that calls the learner's function."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self._ask("call", name, args, kwargs)

    def new(self, name: str, *args: Any, **kwargs: Any) -> LocalHandle:
        """Make an object of a learner's class."""
        return LocalHandle(self, self._ask("new", name, args, kwargs))

    def grad(self, name: str, wrt: Sequence[str], cotangent: Any = None, **kwargs: Any) -> Any:
        """Return gradients, see `Calls.grad`."""
        return self._ask("grad", name, list(wrt), kwargs, cotangent)

    def measure(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return a call's result and the memory it took, see `Calls.measure`."""
        return self._ask("measure", name, args, kwargs)

    def _begin(self, nodeid: str, question: str | None) -> None:
        """Start a test: the objects of the one before are gone."""
        self._calls = Calls(self._namespace, self._arrays)
        self._trace = self._traces.setdefault(nodeid.rsplit("/", 1)[-1], [])

    def _ask(self, do: str, *args: Any) -> Any:
        """Make a call and write it down."""
        asked = Asked(do, args)
        self._trace.append(asked)
        try:
            asked.given = getattr(self._calls, do)(*args)
        except StudentError as error:
            if str(error).startswith("KeyboardInterrupt"):
                raise KeyboardInterrupt from None
            asked.given = StudentError(f"{error}{_where(error.__context__)}")
            raise asked.given from None
        value = asked.given
        if do == "measure":
            return value
        asked.given = plain(value)  # a test may change what it was given
        return value


def _where(error: BaseException | None) -> str:
    """Return the line of learner code that raised, for the learner only."""
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__ if error else None)
        if "site-packages" not in frame.filename and frame.filename != _CALLS
    ]
    if not own or isinstance(error, NotImplementedError):
        return ""
    line = f": {own[-1].line}" if own[-1].line else ""
    return f" (in {own[-1].name}, line {own[-1].lineno}{line})"


def same(left: Any, right: Any, tolerance: float = 1e-9) -> bool:
    """Say whether two plain values are equal, numbers to a tolerance.

    Examples
    --------
    >>> same([1.0, np.array([2.0])], [1.0 + 1e-12, np.array([2.0])]), same(None, 0.0)
    (True, False)
    """
    if isinstance(left, list) and isinstance(right, list):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(same(a, b, tolerance) for a, b in pairs)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            same(left[key], right[key], tolerance) for key in left
        )
    numbers = (bool, int, float, np.ndarray)
    if isinstance(left, numbers) and isinstance(right, numbers):
        one, two = np.asarray(left), np.asarray(right)
        if one.shape != two.shape or (one.dtype == bool) != (two.dtype == bool):
            return False
        one, two = one.astype(float), two.astype(float)
        return bool(np.allclose(one, two, rtol=tolerance, atol=tolerance, equal_nan=True))
    return type(left) is type(right) and not isinstance(left, Exception) and bool(left == right)
