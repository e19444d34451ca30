"""Attack every backend and say which ones hold.

The one idea: a sandbox is believed when three real attacks fail in it, on this machine, now:
reading a file of yours, talking to a listener of yours, and living on after its deadline.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from attncourse.grading.backends import (
    AUTOMATIC,
    BACKENDS,
    HOW_TO_GET,
    Isolation,
    SandboxError,
    choose,
)
from attncourse.grading.inside.wire import StudentError, WireError
from attncourse.grading.sandbox import Died, Sandbox, TimedOut

__all__ = ["Finding", "examine", "examine_all"]

ATTACKS = ("read a file", "reach a port", "outlive the deadline")


@dataclass(frozen=True)
class Finding:
    """What one backend did.

    Parameters
    ----------
    backend : str
        Its name.
    state : str
        `holds`, `leaks`, `fails` or `absent`.
    details : dict of str to str
        Attack -> what happened.
    """

    backend: str
    state: str
    details: dict[str, str]


def _run(box: Sandbox, source: str, seconds: float = 10.0) -> str:
    """Run a cell; return what it printed."""
    reply = box.ask({"do": "cell", "source": source}, seconds)
    value = reply.get("value")
    return str(value.get("output", "")) if isinstance(value, dict) else ""


def _read_attack(box: Sandbox, folder: Path) -> bool:
    """Try to read a secret; return True if it came out."""
    secret = secrets.token_hex(16)
    place = folder / "secret.txt"
    place.write_text(secret, encoding="utf-8")
    code = (
        f"try:\n    print(open({str(place)!r}, encoding='utf-8').read())\n"
        "except OSError as error:\n    print(error)"
    )
    return secret in _run(box, code)


def _port_attack(box: Sandbox, folder: Path) -> bool:
    """Try to connect to a listener here; return True if a connection came in."""
    del folder
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(0.3)
        port = listener.getsockname()[1]
        _run(box, f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2).send(b'x')")
        with contextlib.suppress(TimeoutError):
            listener.accept()[0].close()
            return True
    return False


def _survival_attack(box: Sandbox, folder: Path) -> bool:
    """Start a process, hang, be killed; return True if anything lives on."""
    del folder
    code = (
        "import os, time\ntry:\n    os.fork() or os.setsid()\nexcept OSError:\n    pass\n"
        "while True:\n    try:\n        time.sleep(1)\n    except BaseException:\n        pass"
    )
    pid = box.worker_pid()
    with contextlib.suppress(TimedOut):
        _run(box, code, 1.0)
    time.sleep(0.1)
    return pid is not None and os.path.exists(f"/proc/{pid}")


_TRIES: tuple[Callable[[Sandbox, Path], bool], ...] = (_read_attack, _port_attack, _survival_attack)


def examine(backend: str, image: str) -> Finding:
    """Attack one backend.

    Parameters
    ----------
    backend : str
        One of `BACKENDS`.
    image : str
        Image of a container.

    Returns
    -------
    Finding
    """
    try:
        choose(backend, trusted=True)
    except SandboxError as error:
        return Finding(backend, "absent", {"why": str(error).splitlines()[0]})
    details: dict[str, str] = {}
    leaked = False
    with tempfile.TemporaryDirectory(prefix="attncourse-doctor-") as name:
        for attack, attempt in zip(ATTACKS, _TRIES, strict=True):
            box = None
            try:
                box = Sandbox(Isolation(backend, image=image), {})
                success = attempt(box, Path(name))
            except (SandboxError, Died, TimedOut, WireError, StudentError) as error:
                return Finding(backend, "fails", {**details, attack: str(error)})
            finally:
                if box is not None:
                    box.kill()
            details[attack] = "SUCCEEDED" if success else "stopped"
            leaked |= success
    return Finding(backend, "leaks" if leaked else "holds", details)


def examine_all(image: str) -> tuple[list[Finding], str]:
    """Attack every backend; return what was found and what to do."""
    findings = [examine(backend, image) for backend in BACKENDS]
    good = [one.backend for one in findings if one.state == "holds" and one.backend in AUTOMATIC]
    return findings, f"auto uses {good[0]}." if good else f"No backend holds. {HOW_TO_GET}"
