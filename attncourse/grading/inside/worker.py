"""The untrusted side: runs a learner's cells, then answers calls. It starts inside the sandbox.

The one idea: this process may do whatever it likes, since all it can ever say is "this call
returned that value". It knows no test, no expected value and no name of a student.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from IPython.core.async_helpers import get_asyncio_loop

from attncourse.grading.inside.calls import Calls, failure
from attncourse.grading.inside.confine import confine
from attncourse.grading.inside.shell import make_shell
from attncourse.grading.inside.wire import FRAME, Limits, StudentError, decode, frame, frame_size

__all__ = ["main"]

OUTPUT_CHARS = 4096


class Capped(io.TextIOBase):
    """Keep the first characters that are printed and drop the rest."""

    encoding = "utf-8"  # notebooks ask for it, as `print(text.encode(sys.stdout.encoding))` does

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.room = OUTPUT_CHARS

    def write(self, text: str) -> int:
        """Keep what there is room for."""
        if self.room > 0:
            self.kept.append(str(text)[: self.room])
            self.room -= len(self.kept[-1])
        return len(text)

    def writable(self) -> bool:
        """Say yes."""
        return True

    def take(self) -> str:
        """Return what was kept and start anew."""
        text = "".join(self.kept)
        self.kept, self.room = [], OUTPUT_CHARS
        return text


class Channel:
    """Two pipes to the trusted side."""

    def __init__(self) -> None:
        self.requests, self.replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
        self.limits = Limits(frame_bytes=256 << 20, nodes=1_000_000)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        os.close(nowhere)

    def receive(self) -> dict[str, Any]:
        """Wait for a request; leave when the trusted side has gone."""
        head = self.requests.read(FRAME.size)
        if len(head) < FRAME.size:
            os._exit(0)
        return decode(self.requests.read(frame_size(head, self.limits)), self.limits)

    def send(self, message: dict[str, Any]) -> None:
        """Send a reply."""
        self.replies.write(frame(message))
        self.replies.flush()


class Worker:
    """Run cells and answer calls.

    Parameters
    ----------
    arrays : dict of str to str
        See `Calls`.
    """

    def __init__(self, arrays: dict[str, str]) -> None:
        self.output = Capped()
        sys.stdout = sys.stderr = self.output
        self.shell = make_shell()
        self.output.take()  # what IPython says at its start is not the learner's
        self.calls = Calls(self.shell.user_ns, arrays)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what one request asks; whatever goes wrong is an answer too."""
        try:
            run = self.run_cell if request["do"] == "cell" else self.calls.answer
            return {"id": request["id"], "ok": True, "value": run(request)}
        except StudentError as error:
            kind = "memory" if isinstance(error.__cause__, MemoryError) else "error"
            return {"id": request["id"], "ok": False, "text": str(error), "kind": kind}

    def run_cell(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one cell; its error is an answer, not a failure."""
        left_out = self.shell.left_out
        left_out.clear()
        result = self.shell.run_cell(request["source"], silent=True, store_history=False)
        error = result.error_before_exec or result.error_in_exec
        missing = [f"ModuleNotFoundError: {text}" for text in left_out]
        text = "\n".join([*missing, *([] if error is None else [str(failure(error))])])
        memory = isinstance(error, MemoryError)
        return {"error": text, "output": self.output.take(), "memory": memory}


def start(order: dict[str, Any]) -> tuple[Worker, bool]:
    """Bind this process and make ready for learner code; tell whether calls are filtered."""
    get_asyncio_loop()  # for cells with `await`: later no loop can be made, since it takes sockets
    filtered = confine(order["memory_bytes"], order["cpu_seconds"], order["file_bytes"])
    if "torch" in order["arrays"].values():
        import torch

        torch.set_num_threads(1)
    return Worker(order["arrays"]), filtered


def main() -> None:
    """Start, say hello, serve until the trusted side goes away."""
    channel = Channel()
    order = channel.receive()
    try:
        worker, filtered = start(order)
    except BaseException as error:
        channel.send({"id": order["id"], "ok": False, "text": str(failure(error))})
        raise
    channel.send({"id": order["id"], "ok": True, "value": {"filtered": filtered}})
    while True:
        reply = worker.answer(request := channel.receive())
        try:
            channel.send(reply)
        except Exception as error:
            text = f"the result cannot be sent: {failure(error)}"
            channel.send({"id": request["id"], "ok": False, "text": text, "kind": "error"})
