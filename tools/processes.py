"""Run other programs: their lines shown as they come, never without a time limit.

Standard library only: make.py needs it before anything is installed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Failed(Exception):
    """A step did not work; the text says why and what to do."""


def minutes(seconds: float) -> str:
    """Write a duration for people: ``41 s``, ``2 min 05 s``."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


def lossless() -> None:
    """Have a character that a terminal cannot show printed as its number, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """Print one line at once, also into a pipe."""
    print(text, flush=True)


def stop(process: subprocess.Popen) -> None:
    """End a process and everything that it started."""
    if os.name == "nt":
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True)
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run(command: list, limit: float, show=say, **variables: str) -> tuple[int, list[str]]:
    """Run a command, hand each line it prints to ``show``; return its exit code and its lines.

    After ``limit`` seconds the command is stopped with what it started, and the code is 124.
    """
    own_group = {} if os.name == "nt" else {"start_new_session": True}
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        **own_group,
    )
    lines: list[str] = []

    def read() -> None:
        with process.stdout:
            for line in process.stdout:
                lines.append(line.rstrip())
                show(lines[-1])

    # A thread of its own: a forgotten grandchild that holds the pipe must not hang us.
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        stop(process)
        code = 124
    except KeyboardInterrupt:
        stop(process)
        raise
    reader.join(5)
    if code == 124:
        lines.append(f"stopped: still running after {minutes(limit)}")
        show(lines[-1])
    return code, lines
