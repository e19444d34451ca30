"""The transport of the instant check: calls in the learner's own process.

The one idea: what comes back is exactly what would cross the border of the grader's sandbox, so a
test sees no difference. Only here, where it is nobody else's business, an error says in which line.
"""

from __future__ import annotations

import _thread
import contextlib
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from attncourse.grading.inside import calls, wire
from attncourse.grading.own_code import untouched

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
    seconds : float, optional
        After so many seconds in the learner's code the call that runs is stopped; never by default.
    """

    def __init__(
        self,
        namespace: Mapping[str, Any],
        arrays: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> None:
        self.namespace, self.arrays = namespace, arrays
        self.seconds = self.left = seconds
        self.begin(None)

    def begin(self, question: str | None) -> None:
        """Start a test: the objects of the one before are gone."""
        self.calls = calls.Calls(self.namespace, self.arrays)

    def ask(self, request: Mapping[str, Any]) -> Any:
        """Make a call; its error says where it happened."""
        with _stopped_after(self.left) as over:
            began = time.monotonic()
            try:
                return self.calls.answer(request)
            except wire.StudentError as error:
                if over.is_set():
                    text = f"stopped after {self.seconds:g} s: does a loop never end?"
                    raise wire.StudentError(text) from None
                if str(error).startswith("KeyboardInterrupt"):
                    raise KeyboardInterrupt from None
                cause = error.__context__
                text = _unwritten(cause, request) or f"{error}{line_of(cause)}"
                raise wire.StudentError(text) from None
            finally:
                if self.left is not None:
                    self.left = max(0.01, self.left - (time.monotonic() - began))


@contextlib.contextmanager
def _stopped_after(seconds: float | None) -> Iterator[threading.Event]:
    """Interrupt the main thread when time is over, again and again; say so in the event."""
    over, done = threading.Event(), threading.Event()
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield over
        return

    def watch() -> None:
        """Wait, then interrupt until somebody listens: code may swallow the first one."""
        wait = seconds
        while not done.wait(wait):
            over.set()
            _thread.interrupt_main()
            wait = 0.5

    # A program that was started in the background ignores the signal, and nothing would happen.
    before = signal.getsignal(signal.SIGINT)
    deaf = not callable(before)
    if deaf:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield over
    finally:
        done.set()
        if over.is_set():
            with contextlib.suppress(KeyboardInterrupt):  # one may still be on its way
                time.sleep(0.05)
        if deaf:
            signal.signal(signal.SIGINT, before)


def _unwritten(error: BaseException | None, request: Mapping[str, Any]) -> str:
    """Say which function is not written yet, unless it is the one that was called."""
    if not isinstance(error, NotImplementedError):
        return ""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    code = frames[-1].f_code
    if code.co_filename in _OURS:
        return ""
    asked, inner = str(request.get("name")), code.co_name
    if not untouched(code):
        return (
            f"the line that raises NotImplementedError still stands in {inner}, below your code: "
            "delete it"
        )
    if inner in (asked, "__init__"):
        return ""
    return f"{inner} is not written yet, and {asked} needs it: answer its question first"


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
