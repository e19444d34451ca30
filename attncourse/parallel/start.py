"""Start a script on several processes of this machine, from a notebook or a test.

New here: a notebook is one process, so it starts others and reads what they write. It is the
command ``torchrun --standalone --nproc-per-node N -m MODULE``, spelled so that it finds the same
Python everywhere, and with an end: when the time is over, all of its processes are ended.

Left out: other machines. There the same module is started by torchrun on each, with an address.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

__all__ = ["command", "torchrun"]

# Seconds for torchrun to end its processes by itself before it is ended too.
_GRACE = 10.0


def command(module: str, *arguments: str, processes: int = 2, max_restarts: int = 0) -> list[str]:
    """Spell the command line that starts a module on several processes.

    Examples
    --------
    >>> command("attncourse.parallel.ring", "--check")[1:4]
    ['-m', 'torch.distributed.run', '--standalone']
    """
    options = ["--standalone", "--nproc-per-node", str(processes)]
    if max_restarts:
        options += ["--max-restarts", str(max_restarts)]
    run = [sys.executable, "-m", "torch.distributed.run", *options]
    return [*run, "-m", module, *map(str, arguments)]


def torchrun(
    module: str,
    *arguments: str,
    processes: int = 2,
    max_restarts: int = 0,
    timeout: float = 300.0,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a module on several processes, and return what they wrote.

    Parameters
    ----------
    module : str
        Such as ``attncourse.parallel.ring``.
    *arguments : str
        For the module.
    processes : int, default 2
        How many.
    max_restarts : int, default 0
        How often all processes are started anew after one has failed.
    timeout : float, default 300.0
        Seconds after which they are ended.
    check : bool, default True
        Raise when they fail.

    Returns
    -------
    subprocess.CompletedProcess
        With `returncode`, `stdout` and `stderr`.

    Raises
    ------
    RuntimeError
        When a process fails; what it wrote is in the message.
    subprocess.TimeoutExpired
        When the time is over.
    """
    whole = command(module, *arguments, processes=processes, max_restarts=max_restarts)
    running = subprocess.Popen(
        whole, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )
    try:
        stdout, stderr = running.communicate(timeout=timeout)
    except BaseException:
        end(running)
        raise
    if check and running.returncode:
        raise RuntimeError(f"{' '.join(whole[1:])} failed:\n{stdout}\n{stderr[-4000:]}")
    return subprocess.CompletedProcess(whole, running.returncode, stdout, stderr)


def environment() -> dict[str, str]:
    """Return the environment of the processes: this package, one thread each.

    The C library returns large pieces of memory at once, so that what is measured is what is used.
    """
    places = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, places))
    settings = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": str(2**20)}
    return os.environ | settings | {"PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}


def end(running: subprocess.Popen[str]) -> None:
    """Ask torchrun to end its processes and itself; insist if it does not."""
    with contextlib.suppress(ProcessLookupError):
        running.send_signal(signal.SIGTERM)
    try:
        running.communicate(timeout=_GRACE)
    except subprocess.TimeoutExpired:
        running.kill()
        running.communicate()
