"""The transport of the instant check: calls in the learner's own process.

The one idea: what comes back is exactly what would cross the border of the grader's sandbox, so a
test sees no difference. Only here, where it is nobody else's business, an error says in which line.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from attncourse.grading.inside import calls, wire

__all__ = ["LocalTransport", "line_of"]

_OURS = {calls.__file__, wire.__file__}


class LocalTransport:
    """The learner's live names, called in this process.

    Parameters
    ----------
    namespace : mapping
        Name -> function or class.
    arrays : mapping
        Name -> `numpy` or `torch`, see `attncourse.grading.inside.calls.Calls`.
    """

    def __init__(self, namespace: Mapping[str, Any], arrays: Mapping[str, str] | None = None):
        self.namespace, self.arrays = namespace, arrays
        self.begin(None)

    def begin(self, question: str | None) -> None:
        """Start a test: the objects of the one before are gone."""
        self.calls = calls.Calls(self.namespace, self.arrays)

    def ask(self, request: Mapping[str, Any]) -> Any:
        """Make a call; its error says where it happened."""
        try:
            return self.calls.answer(request)
        except wire.StudentError as error:
            if str(error).startswith("KeyboardInterrupt"):
                raise KeyboardInterrupt from None
            raise wire.StudentError(f"{error}{line_of(error.__context__)}") from None


def line_of(error: BaseException | None) -> str:
    """Return the line of learner code that raised, in brackets; empty if there is none."""
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__ if error else None)
        if "site-packages" not in frame.filename and frame.filename not in _OURS
    ]
    if not own or isinstance(error, NotImplementedError):
        return ""
    line = f": {own[-1].line}" if own[-1].line else ""
    return f" (in {own[-1].name}, line {own[-1].lineno}{line})"
