"""Write down what a test asks and what it gets, from whichever transport answers.

The one idea: a known mistake can be asked the same questions later. So the plugin hands each test a
recorder around the student, and the trace is part of the test's result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncourse.grading.wire import StudentError, plain

__all__ = ["Asked", "RecordedHandle", "Recorder", "same"]


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
        What came back; None if the call failed.
    failed : bool
        Whether it failed.
    broken : bool
        Whether it failed for another reason than the learner's code.
    """

    do: str
    args: tuple[Any, ...]
    given: Any = None
    failed: bool = True
    broken: bool = False


class Recorder:
    """A student that remembers.

    Parameters
    ----------
    student : LocalStudent or RemoteStudent
        Who answers.
    """

    def __init__(self, student: Any) -> None:
        self._student = student
        self._trace: list[Asked] = []
        self._made = 0

    def __getattr__(self, name: str) -> Any:
        """Return a function that calls the learner's function."""
        if name.startswith("_"):
            raise AttributeError(name)
        function = getattr(self._student, name)
        return lambda *args, **kwargs: self._keep(
            Asked("call", (name, args, kwargs)), function, args, kwargs
        )

    def new(self, name: str, *args: Any, **kwargs: Any) -> RecordedHandle:
        """Make an object of a learner's class."""
        asked = Asked("new", (name, args, kwargs))
        handle = self._keep(asked, self._student.new, (name, *args), kwargs, copy=False)
        self._made += 1
        return RecordedHandle(self, handle, self._made - 1)

    def grad(self, name: str, wrt: Sequence[str], cotangent: Any = None, **kwargs: Any) -> Any:
        """Return gradients, see `Calls.grad`."""
        asked = Asked("grad", (name, list(wrt), kwargs, cotangent))
        return self._keep(asked, self._student.grad, (name, wrt, cotangent), kwargs)

    def measure(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return a call's result and the memory it took, see `Calls.measure`."""
        asked = Asked("measure", (name, args, kwargs))
        return self._keep(asked, self._student.measure, (name, *args), kwargs, copy=False)

    def _keep(self, asked: Asked, function: Any, args: Any, kwargs: Any, copy: bool = True) -> Any:
        """Make a call and write it down; a test may change what it was given."""
        self._trace.append(asked)
        try:
            value = function(*args, **kwargs)
        except StudentError:
            raise
        except BaseException:
            asked.broken = True
            raise
        asked.given, asked.failed = plain(value) if copy else None, False
        return value


class RecordedHandle:
    """An object of a learner's class: its methods can be called, `get` reads an attribute.

    Parameters
    ----------
    recorder : Recorder
        Who remembers.
    handle : LocalHandle or Handle
        Who answers.
    number : int
        Which object of its test it is.
    """

    def __init__(self, recorder: Recorder, handle: Any, number: int) -> None:
        self._recorder, self._handle, self._number = recorder, handle, number

    def __getattr__(self, name: str) -> Any:
        """Return a function that calls the method."""
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self._handle, name)
        return lambda *args, **kwargs: self._recorder._keep(
            Asked("method", (self._number, name, args, kwargs)), method, args, kwargs
        )

    def get(self, name: str) -> Any:
        """Return an attribute's value."""
        asked = Asked("attribute", (self._number, name))
        return self._recorder._keep(asked, self._handle.get, (name,), {})


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
