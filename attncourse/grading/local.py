"""`student` for the instant check: calls in the learner's own process.

The one idea: what comes back is exactly what would cross the border of the grader's sandbox, so a
test sees no difference. Only here, where it is nobody else's business, an error says in which line.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attncourse.grading import calls, wire
from attncourse.grading.calls import Calls
from attncourse.grading.wire import StudentError

__all__ = ["LocalHandle", "LocalStudent"]

_OURS = {calls.__file__, wire.__file__}


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

    def __post_init__(self) -> None:
        """Start without objects."""
        self._calls = Calls(self._namespace, self._arrays)

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

    def _ask(self, do: str, *args: Any) -> Any:
        """Make a call; its error says where it happened."""
        try:
            return getattr(self._calls, do)(*args)
        except StudentError as error:
            if str(error).startswith("KeyboardInterrupt"):
                raise KeyboardInterrupt from None
            raise StudentError(f"{error}{_where(error.__context__)}") from None


def _where(error: BaseException | None) -> str:
    """Return the line of learner code that raised, for the learner only."""
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__ if error else None)
        if "site-packages" not in frame.filename and frame.filename not in _OURS
    ]
    if not own or isinstance(error, NotImplementedError):
        return ""
    line = f": {own[-1].line}" if own[-1].line else ""
    return f" (in {own[-1].name}, line {own[-1].lineno}{line})"
