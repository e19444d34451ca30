"""Measure rungs side by side: what `attncourse bench` prints.

New here: functions take turns in one run, and a result is a ratio to PyTorch's own function
in the same round. What is read is the processor time of this process, so that a busy
machine disturbs less: with one thread it is the time on the clock of a quiet machine.
Losses stand beside wins.

Left out: GPUs (`benchmarks/gpu.py`), and verdicts: no test asserts a time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["add_command", "interleaved", "machine", "measure", "ratios", "save", "table"]

TABLES = ("ladder", "tiles", "memory", "window", "decode")
DESCRIPTION = """\
Time the rungs side by side on this CPU, with one thread.

  ladder   every rung, causal and not, forward and with backward
  tiles    the rungs without a whole matrix against five lines of torch that build it
  memory   peak memory of each rung, in a process of its own
  window   a window of keys against PyTorch given the same mask
  decode   one query against a cache, grouped heads

All functions take turns in one run. A ratio is "times faster than PyTorch's own function
(sdpa) in the same round", or in table tiles "than the five lines": above 1 it wins, below 1
it loses. Times of two runs must not be compared, ratios of one run may."""
EXAMPLES = """\
examples:
  attncourse bench                                   all tables, some minutes
  attncourse bench ladder --lengths 256 512 --seconds 0.5
  attncourse bench decode --json results             also writes results/cpu_decode.json"""


def interleaved(
    functions: Mapping[str, Callable[[], Any]], *, seconds: float = 2.0, rounds: int = 15
) -> dict[str, list[float]]:
    """Time functions in turns.

    Parameters
    ----------
    functions : mapping of str to callable
        What to time, each without arguments.
    seconds : float, default 2.0
        Processor time after which no new round starts.
    rounds : int, default 15
        Rounds at most, after a first one that warms up. That one counts only where it is
        alone, because it took more than four times `seconds`.

    Returns
    -------
    dict of str to list of float
        Processor seconds of each function in each round.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    start = time.process_time()
    for number in range(rounds + 1):
        for name, function in functions.items():
            before = time.process_time()
            function()
            times[name].append(time.process_time() - before)
        if time.process_time() - start > (seconds if number else 4 * seconds):
            break
    return {name: found[1:] or found for name, found in times.items()}


def ratios(times: Mapping[str, Sequence[float]], base: str) -> dict[str, float]:
    """Tell how many times faster than `base` each function is: the median over the rounds.

    Examples
    --------
    >>> ratios({"slow": [2.0, 4.0], "fast": [1.0, 1.0]}, "slow")
    {'slow': 1.0, 'fast': 3.0}
    """
    return {
        name: statistics.median(b / t for b, t in zip(times[base], found, strict=True))
        for name, found in times.items()
    }


def machine() -> dict[str, Any]:
    """Say what the figures were measured on."""
    import torch

    model = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), "")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cpu": model or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay rows out in columns, one column for each key.

    Examples
    --------
    >>> print(table([{"n": 512, "x": 1.5}, {"n": 1024, "x": None}]))
       n    x
     512  1.5
    1024    -
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names, *([_cell(row.get(name)) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
        for line in cells
    )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def save(path: str | Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as JSON, with the machine they were measured on."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"table": name, "machine": machine(), "rows": list(rows)}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def add_command(subparsers: Any) -> argparse.ArgumentParser:
    """Add `bench` to the command line; its arguments go to `run`."""
    parser = subparsers.add_parser(
        "bench",
        help="time the rungs side by side on this CPU",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tables = f"any of {', '.join(TABLES)}; all by default"
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=tables)
    parser.add_argument("--lengths", type=int, nargs="+", metavar="N", help="sequence lengths")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for one comparison")
    parser.add_argument("--json", metavar="FOLDER", help="also write cpu_TABLE.json there")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Measure the tables asked for, one thread on the CPU, and print them.

    Returns
    -------
    int
        0, or 2 for a table that does not exist.
    """
    wrong = [name for name in args.tables if name not in TABLES]
    if wrong:
        print(f"no table is called {', '.join(wrong)}; there are {', '.join(TABLES)}")
        return 2
    for name in args.tables or TABLES:
        measure(name, lengths=args.lengths, seconds=args.seconds, folder=args.json)
    return 0


def measure(
    name: str,
    *,
    lengths: Sequence[int] | None = None,
    seconds: float = 2.0,
    folder: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Measure one table with one thread, print it, and save it where a folder is given.

    Parameters
    ----------
    name : str
        One of `TABLES`.
    lengths : sequence of int, optional
        Sequence lengths; the table has its own.
    seconds : float, default 2.0
        Time for one comparison.
    folder : path, optional
        Where to write ``cpu_NAME.json``.

    Returns
    -------
    list of dict
        The rows.
    """
    import torch

    from attncourse.measure.bench import tables

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        print("  ".join(f"{key} {value}" for key, value in machine().items()))
        sizes = {"lengths": lengths} if lengths else {}
        rows = getattr(tables, name)(seconds=seconds, **sizes)
        print(f"{tables.TITLES[name]}\n{table(rows)}\n")
        if folder:
            save(Path(folder) / f"cpu_{name}.json", name, rows)
    finally:
        torch.set_num_threads(threads)
    return rows
