"""One process of many: join the others, do the work, and end cleanly whatever happens.

New here: when one process fails, the others wait for numbers that never come. So a process that
fails leaves a note in the store that all of them share, and each of the others says in one line
why it stops, instead of a page about sockets. Every wait has an end: a process that is stuck costs
at most the timeout.

Left out: starting the processes, which is torchrun's work (`attncourse.parallel.start`).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

__all__ = ["TIMEOUT", "Process", "run", "say"]

TIMEOUT = 300.0
_NOTE = "attncourse/failure"
_PR_SET_PDEATHSIG = 1  # of prctl, in Linux
# Seconds that a process waits for the note of another one before it reports without it.
_PATIENCE = 1.0


@dataclass(frozen=True)
class Process:
    """What a process is told about itself.

    Attributes
    ----------
    rank, world_size : int
        Which process of how many.
    device : torch.device
        Where it computes.
    """

    rank: int
    world_size: int
    device: torch.device


class _ToldToStop(BaseException):
    """The signal by which torchrun ends the other processes when one has failed."""


def run(work: Callable[[Process], Any], *, timeout: float = TIMEOUT, backend: str = "auto") -> int:
    """Join the other processes, do the work, leave.

    Parameters
    ----------
    work : callable
        ``work(process)``, the same on every rank.
    timeout : float, default 300.0
        Seconds that a rank waits for another one, at most.
    backend : {"auto", "gloo", "nccl"}
        Through what the processes talk; nccl where every process has a GPU of its own, by default.

    Returns
    -------
    int
        The exit status: 0, or 2 when the script was not started by torchrun. When the work fails
        on any rank, every rank says why in one line and ends with status 1.
    """
    if "RANK" not in os.environ:
        module = getattr(sys.modules["__main__"].__spec__, "name", sys.argv[0])
        print(
            "this script is one process of several; start it with\n"
            f"  torchrun --standalone --nproc-per-node 2 -m {module} {' '.join(sys.argv[1:])}",
            file=sys.stderr,
        )
        return 2
    rank, store = int(os.environ["RANK"]), None
    _end_with_parent()
    signal.signal(signal.SIGTERM, _stop)
    try:
        store, rank, world_size = _meet(timeout)
        process = Process(rank, world_size, _pick_device(backend))
        dist.init_process_group(
            _backend(process.device),
            store=store,
            rank=rank,
            world_size=world_size,
            timeout=_seconds(timeout),
        )
        work(process)
        dist.barrier()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        dist.destroy_process_group()
    except SystemExit:
        raise
    except BaseException as error:  # not only Exception: torch has errors that are none
        _leave(error, rank, store)
    return 0


def _end_with_parent() -> None:
    """Ask Linux to end this process when torchrun is gone, killed before it could end anything."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died while we asked
            os._exit(1)


def _meet(timeout: float) -> tuple[Any, int, int]:
    """Find the store that all processes share, the own rank and the number of ranks.

    torchrun's store outlives a restart, and so do the addresses of processes that are gone: every
    attempt gets a shelf of its own.
    """
    store, rank, world_size = next(iter(rendezvous("env://", timeout=_seconds(timeout))))
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"attempt {attempt}", store), rank, world_size


def say(process: Process, text: str) -> None:
    """Print one line from rank 0, at once."""
    if process.rank == 0:
        print(text, flush=True)


def _seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def _pick_device(backend: str) -> torch.device:
    """Give the process a GPU of its own, if every process on this machine can have one."""
    if backend not in ("auto", "gloo", "nccl"):
        raise ValueError(f"backend must be auto, gloo or nccl, got {backend!r}")
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if backend == "nccl" and found < here:
        raise ValueError(f"nccl needs a GPU for each process: {here} processes, {found} GPUs")
    if backend == "gloo" or found < here:
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    return device


def _backend(device: torch.device) -> str:
    return "nccl" if device.type == "cuda" else "gloo"


def _stop(number: int, frame: Any) -> NoReturn:
    raise _ToldToStop(number)


def _leave(error: BaseException, rank: int, store: Any) -> NoReturn:
    """Say in one line why this process ends, leave a note for the others, and end it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    note = _note(store)
    own = note is None and not _is_about_others(error)
    if own:
        report = f"rank {rank}: {type(error).__name__}: {error}"
        with suppress(Exception):
            store.set(_NOTE, report)
        if not isinstance(error, (ValueError, TypeError, OSError, KeyboardInterrupt)):
            report = "".join(traceback.format_exception(error)) + report
    elif note is not None:
        report = f"rank {rank}: stops, because of {note}"
    elif isinstance(error, _ToldToStop):
        report = f"rank {rank}: stops, because it was told to: another process is gone"
    else:
        first = str(error).strip().splitlines()[:1]
        report = f"rank {rank}: stops, another process is gone or too slow: {''.join(first)}"
    print(report, file=sys.stderr, flush=True)
    sys.stdout.flush()
    # Threads of the backend may still wait for a process that is gone: do not join them.
    os._exit(1)


def _is_about_others(error: BaseException) -> bool:
    """Tell an error of the connection to the other processes from one of this process's own."""
    if isinstance(error, _ToldToStop | dist.DistError):
        return True
    words = ("Connection closed by peer", "Timed out waiting", "Connection reset", "gloo", "NCCL")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def _note(store: Any) -> str | None:
    """Read what another process has written, waiting a moment for one that fails just now."""
    until = time.monotonic() + _PATIENCE
    while store is not None:
        with suppress(Exception):
            if store.check([_NOTE]):
                return store.get(_NOTE).decode()
        if time.monotonic() > until:
            break
        time.sleep(0.05)
    return None
