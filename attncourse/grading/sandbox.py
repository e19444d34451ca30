"""The trusted side of one worker: start it, ask it with a deadline, kill it whole.

The one idea: only the deadline here stops learner code. When it passes, the first process of the
worker's namespace is killed through a handle that cannot be reused, and the kernel ends the rest.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from attncourse.grading.backends import (
    ENVIRONMENT,
    NOBODY,
    Isolation,
    SandboxError,
    command,
    lay_out,
)
from attncourse.grading.inside.wire import FRAME, Limits, WireError, decode, frame, frame_size

__all__ = ["WALL", "Died", "Killed", "Sandbox", "TimedOut"]

START_SECONDS = 60.0
WALL = 4.0  # so much longer than its processor time a call may take by the clock
LOOK_SECONDS = 0.2  # how often processor time is looked at


class TimedOut(Exception):
    """The deadline passed; the worker has been killed."""


class Died(Exception):
    """The worker ended by itself; the message says how."""


class Killed(Died):
    """Somebody else has killed it, as the kernel does when a machine has no memory left."""


def well_formed(reply: Any, token: str, cell: bool) -> dict[str, Any]:
    """Return a reply that holds what a reply must, each part of exactly the right type.

    Parameters
    ----------
    reply : object
        What was decoded; an array in place of a text would fail wherever it is compared.
    token : str
        Of the request.
    cell : bool
        It answers for a cell.

    Raises
    ------
    WireError
        If it does not.
    """
    if type(reply) is not dict or type(reply.get("id")) is not str or reply["id"] != token:
        raise WireError("a reply that answers no request")
    if type(reply.get("ok")) is not bool:
        raise WireError("a reply that says neither yes nor no")
    kinds: dict[str, type] = {"error": str, "output": str, "memory": bool}
    value = reply.get("value")
    if not reply["ok"]:
        kinds, value = {"text": str, "kind": str}, {"kind": "", **reply}
    elif not cell:
        return reply
    if type(value) is not dict or any(type(value.get(key)) is not kinds[key] for key in kinds):
        raise WireError("a reply with parts of the wrong kind")
    return reply


class Sandbox:
    """One worker in its sandbox.

    Parameters
    ----------
    isolation : Isolation
        How it is shut in.
    arrays : dict of str to str
        See `attncourse.grading.inside.calls.Calls`.
    limits : Limits, optional
        What one reply may hold.

    Raises
    ------
    SandboxError
        If the worker does not say hello: no learner code has run then.
    """

    def __init__(
        self, isolation: Isolation, arrays: dict[str, str], limits: Limits | None = None
    ) -> None:
        self.isolation = isolation
        self.limits = limits or Limits()
        self.name = f"attncourse-{secrets.token_hex(8)}"
        self.bare = isolation.backend in ("none", "user")
        self.folder = Path(tempfile.mkdtemp(prefix="attncourse-")) if self.bare else None
        self.errors: IO[bytes] = tempfile.TemporaryFile()
        self.handle: int | None = None
        self.first_pid: int | None = None
        self.error_text = ""
        self.received = 0  # bytes of all replies so far
        self.processor_until: float | None = None
        try:
            self._start()
            order = {
                "arrays": arrays,
                "memory_bytes": isolation.memory_bytes,
                "cpu_seconds": isolation.cpu_seconds,
                "file_bytes": isolation.file_bytes,
            }
            hello = self.ask(order, START_SECONDS)
            if hello.get("ok") is not True:
                raise Died(str(hello.get("text")))
        except (Died, TimedOut, WireError, OSError) as error:
            self.kill()
            raise SandboxError(
                f"the {isolation.backend} worker did not start: {self.error_text or error}"
            ) from None
        except BaseException:
            self.kill()
            raise
        self.filtered = bool(hello["value"]["filtered"])
        self.baseline = self.peak_bytes()

    def _start(self) -> None:
        """Start the process."""
        if self.folder is not None:
            lay_out(self.folder, self.isolation)
        words = command(self.isolation, self.name, str(self.folder))
        told, tell = os.pipe()
        if self.isolation.backend == "bwrap":
            words[1:1] = ["--info-fd", str(tell)]
        environment = {**ENVIRONMENT, "HOME": str(self.folder)} if self.bare else dict(os.environ)
        nobody = NOBODY if self.isolation.backend == "user" else None
        try:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                bufsize=0,
                pass_fds=[tell] if self.isolation.backend == "bwrap" else [],
                start_new_session=True,
                env=environment,
                cwd=self.folder or "/",
                user=nobody,
                group=nobody,
                extra_groups=None if nobody is None else [],
            )
        finally:
            os.close(tell)
        with os.fdopen(told, encoding="utf-8") as source:
            self._hold_first(source.read() if self.isolation.backend == "bwrap" else "")
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.to, self.out_of = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self.to, False)
        os.set_blocking(self.out_of, False)

    def _hold_first(self, info: str) -> None:
        """Take a handle on the first process of the namespace."""
        if self.bare:
            self.first_pid = self.process.pid
        elif info:
            self.first_pid = int(json.loads(info)["child-pid"])
            self.handle = os.pidfd_open(self.first_pid)

    def ask(
        self, request: dict[str, Any], seconds: float, processor: float | None = None
    ) -> dict[str, Any]:
        """Send a request and wait for its reply.

        Parameters
        ----------
        request : dict
            See `attncourse.grading.inside.worker`.
        seconds : float
            The worker is killed when they are over.
        processor : float, optional
            It is killed too when it has used so many seconds of a processor for this request.

        Returns
        -------
        dict

        Raises
        ------
        TimedOut, Died, WireError
            The worker is dead after any of them.
        """
        if self.process.poll() is not None:
            error = self._death()
            self.kill()
            raise error
        used = self.processor_seconds() if processor is not None else None
        self.processor_until = None if used is None or processor is None else used + processor
        deadline = time.monotonic() + seconds
        token = secrets.token_hex(8)
        try:
            self._write(frame({**request, "id": token}), deadline)
            size = frame_size(self._read(FRAME.size, deadline), self.limits)
            self.received += size
            reply = decode(self._read(size, deadline), self.limits)
            self._look_at_processor()  # what ended between two looks is held to the same limit
            return well_formed(reply, token, request.get("do") == "cell")
        except BaseException:
            self.kill()
            raise

    def _wait(self, number: int, event: int, deadline: float) -> None:
        """Wait until a pipe is ready, or the deadline is over."""
        poll = select.poll()
        poll.register(number, event)
        while (left := deadline - time.monotonic()) > 0:
            look = left if self.processor_until is None else min(left, LOOK_SECONDS)
            if poll.poll(1000 * look):
                return
            self._look_at_processor()
        raise TimedOut("the time limit is over")

    def _look_at_processor(self) -> None:
        """Raise TimedOut where the worker has used more of a processor than it may."""
        if self.processor_until is None:
            return
        used = self.processor_seconds()
        if used is not None and used > self.processor_until:
            raise TimedOut("the time limit is over")

    def _write(self, data: bytes, deadline: float) -> None:
        """Write all, or run out of time."""
        rest = memoryview(data)
        while rest:
            self._wait(self.to, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self.to, rest[: 1 << 16]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise self._death() from None

    def _read(self, count: int, deadline: float) -> bytes:
        """Read exactly `count` bytes, or run out of time."""
        parts = bytearray()
        while len(parts) < count:
            self._wait(self.out_of, select.POLLIN, deadline)
            with contextlib.suppress(BlockingIOError):
                part = os.read(self.out_of, min(count - len(parts), 1 << 20))
                if not part:
                    raise self._death()
                parts += part
        return bytes(parts)

    def _death(self) -> Died:
        """Return how the worker ended; we have not killed it, since we still wait for it."""
        text = self.exit_text()
        return Killed(text) if "SIGKILL" in text else Died(text)

    def processor_seconds(self) -> float | None:
        """Return the processor time that the worker has used, seen from outside; None if unknown.

        Of a container only the program that started it is seen, which does not run learner code.
        """
        if self.isolation.backend in ("docker", "podman"):
            return None
        try:
            text = Path(f"/proc/{self.worker_pid()}/stat").read_text("utf-8")
            user, system = text.rpartition(")")[2].split()[11:13]
        except (OSError, ValueError):
            return None
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def exit_text(self) -> str:
        """Say how the worker ended."""
        try:
            code = self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return "it closed its side of the channel"
        number = code - 128 if code > 128 else -code
        if 0 < number < 65:
            return f"it was ended by signal {number} ({signal.Signals(number).name})"
        return f"it left with exit status {code}"

    def worker_pid(self) -> int | None:
        """Return the pid, out here, of the process that runs learner code."""
        if self.isolation.backend != "bwrap":
            return self.first_pid
        try:
            text = Path(f"/proc/{self.first_pid}/task/{self.first_pid}/children").read_text("ascii")
            return int(text.split()[0])
        except (OSError, IndexError):
            return None

    def peak_bytes(self) -> int | None:
        """Return the largest resident memory so far, seen from outside; None if unknown."""
        return self._memory("VmHWM:")

    def resident_bytes(self) -> int | None:
        """Return the resident memory now, seen from outside; None if unknown."""
        return self._memory("VmRSS:")

    def reset_peak(self) -> bool:
        """Make `peak_bytes` start again from now; return False if the kernel refuses."""
        try:
            Path(f"/proc/{self.worker_pid()}/clear_refs").write_text("5", "ascii")
        except OSError:
            return False
        return True

    def _memory(self, row: str) -> int | None:
        """Return one row of what the kernel says about the worker, in bytes."""
        try:
            text = Path(f"/proc/{self.worker_pid()}/status").read_text("utf-8")
        except OSError:
            return None
        rows = [line for line in text.splitlines() if line.startswith(row)]
        return int(rows[0].split()[1]) * 1024 if rows else None

    def kill(self) -> None:
        """End everything inside; safe to call twice."""
        process = getattr(self, "process", None)
        if process is not None:
            self._kill_process(process)
            for stream in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    stream.close()
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None
        if not self.errors.closed:
            self.errors.seek(0)
            self.error_text = self.errors.read(2000).decode("utf-8", "replace").strip()
            self.errors.close()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _kill_process(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the namespace first, then what started it."""
        if self.handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.handle, signal.SIGKILL)
        if self.isolation.backend in ("docker", "podman") and process.poll() is None:
            words = [self.isolation.backend, "kill", self.name]
            subprocess.run(words, timeout=30, check=False, capture_output=True)
        if self.handle is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
        if process.poll() is None:
            process.kill()
            process.wait()
