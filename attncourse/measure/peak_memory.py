"""How much memory one call of a rung takes, measured in a process of its own.

New here: the operating system's own mark of the highest use is read, so nothing that
Python or torch hides is missed; the child process starts clean, so nothing else counts.
Only Linux lets a process reset that mark. Elsewhere psutil is asked every millisecond too.

Left out: GPUs, where torch counts for us (`torch.cuda.max_memory_allocated`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

__all__ = ["highest_during", "peak_memory"]

_RESET_PEAK = "5"
# Linux's allocator keeps small freed arrays for later, how many depends on chance. Above this
# size it gives them back at once, so that what is measured is what the call holds.
_CHILD = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "PYTHONIOENCODING": "utf-8",
}


def peak_memory(
    rung: str,
    seq_len: int,
    *,
    num_heads: int = 8,
    head_dim: int = 64,
    is_causal: bool = True,
    backward: bool = False,
    timeout: float = 300.0,
) -> int:
    """Measure the memory that a call needs beyond its inputs, in bytes.

    Parameters
    ----------
    rung : str
        A name from the ladder.
    seq_len, num_heads, head_dim : int
        L = S, H and E = Ev; one sequence, float32.
    is_causal : bool, default True
        As in `attncourse.attention`.
    backward : bool, default False
        Take gradients too.
    timeout : float, default 300.0
        Seconds after which the child process is stopped.

    Returns
    -------
    int
        Highest memory during the call minus memory before it: the output, the gradients
        and everything in between.

    Raises
    ------
    RuntimeError
        When the child process fails, for example without psutil where that is needed; its own
        words are in the message.
    subprocess.TimeoutExpired
        When it takes too long.
    """
    job: dict[str, Any] = {"rung": rung, "shape": (1, int(num_heads), int(seq_len), int(head_dim))}
    job |= {"is_causal": is_causal, "backward": backward}
    command = [sys.executable, "-m", "attncourse.measure.peak_memory", json.dumps(job)]
    places = [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    env = os.environ | _CHILD | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    done = subprocess.run(
        command, env=env, timeout=timeout, capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise RuntimeError(f"measuring {rung} at {seq_len} failed: {done.stderr.strip()[-500:]}")
    return int(done.stdout)


def _child(job: dict[str, Any]) -> int:
    """Call the rung once at a small size, then once while watching."""
    import torch

    from attncourse.rungs import attention, by_name

    torch.manual_seed(0)
    numpy = by_name(job["rung"]).library == "numpy"
    if job["backward"] and numpy:
        raise SystemExit("a NumPy rung takes no gradients of tensors")

    def call(*shape: int) -> Any:
        inputs: Any = [torch.randn(shape, requires_grad=job["backward"]) for _ in range(3)]
        if numpy:
            inputs = [x.numpy() for x in inputs]

        options: dict[str, Any] = {"is_causal": job["is_causal"], "rung": job["rung"]}

        def work() -> None:
            out = attention(*inputs, **options)
            if job["backward"]:
                torch.autograd.grad(out.sum(), inputs)

        return work

    batch, num_heads, _, head_dim = job["shape"]
    call(batch, num_heads, 16, head_dim)()
    work = call(*job["shape"])
    return highest_during(work)


def highest_during(work: Any) -> int:
    """Return the rise of the process's peak memory during a call, in bytes.

    Raises
    ------
    RuntimeError
        On a system other than Linux, without psutil.
    """
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        return _sampled(work)
    reset.write_text(_RESET_PEAK, encoding="ascii")
    before = _field(status, "VmRSS")
    work()
    return _field(status, "VmHWM") - before


def _sampled(work: Any) -> int:
    """Do the same where the mark cannot be reset: watch from a second thread.

    What stands between two looks is missed, unless the call went beyond all that the process
    used before: then the system's mark has risen, and is exact.
    """
    process, done = _process(), threading.Event()
    before, mark = process.memory_info().rss, _lifetime_peak(process)
    seen = [before]

    def watch() -> None:
        while not done.wait(0.001):
            seen.append(process.memory_info().rss)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    risen = _lifetime_peak(process)
    return (risen if risen > mark else max(seen)) - before


def _process() -> Any:
    """Return psutil's view of this process."""
    try:
        import psutil
    except ImportError:
        raise RuntimeError(
            f"measuring memory on {sys.platform} needs psutil: pip install psutil"
        ) from None
    return psutil.Process()


def _lifetime_peak(process: Any) -> int:
    """Return the most that this process ever used, in bytes; 0 where nobody tells."""
    info = process.memory_info()
    if hasattr(info, "peak_wset"):  # Windows
        return info.peak_wset
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _field(status: Path, name: str) -> int:
    lines = status.read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


if __name__ == "__main__":
    print(_child(json.loads(sys.argv[1])))
