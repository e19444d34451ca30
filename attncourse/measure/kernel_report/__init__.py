"""`attncourse kernels --arch sm_90`: does every kernel fit the chip? No chip needed.

New here: the compiler says before any run whether a tile is too large. What does not fit
into a thread's 255 registers is spilled to memory, quietly and slowly; what does not fit
into shared memory never starts; and on an sm_90 chip only wgmma reaches the full speed of
the matrix units, if the tile has the 64 rows it works on. Each of the three fails the command.

Left out: how fast a kernel is (`benchmarks/gpu.py`). This file never imports Triton: each
compilation runs in a process of its own, in which Triton is native.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

from attncourse._needs import need
from attncourse.kernels.blocks import ARCHS, WIDTHS, fits

__all__ = [
    "DTYPES",
    "FEATURES",
    "KERNELS",
    "add_command",
    "compile_all",
    "faults",
    "render",
    "variants",
]

DESCRIPTION = """\
Compile the Triton kernels for a GPU that need not be there, and say whether they fit it.

One row a variant. registers: of each thread, 255 at most. shared: bytes of shared memory a
program asks for. spilled: bytes that did not fit into registers, should be 0. matrix: which
instructions multiply; wgmma is the fast one of sm_90 (H100, H200), mma that of sm_80 (A100)
and sm_86. A spill, too much shared memory, or slow products where fast ones exist fail the
command: its exit status is 1 then. It says nothing about speed."""
EXAMPLES = """\
examples:
  attncourse kernels --kernel short --width 64 --dtype float16     a few variants, seconds
  attncourse kernels --arch sm_80 --features causal --jobs 2
  attncourse kernels --arch sm_90                                  all of them, many minutes"""

KERNELS = ("short", "forward", "dkdv", "dq")
DTYPES = ("float16", "bfloat16", "float32")
FEATURES = ("plain", "causal", "windowed", "everything", "learned")
_COLUMNS = {
    "kernel": 8,
    "width": 5,
    "dtype": 8,
    "features": 10,
    "tile": 7,
    "num_warps": 9,
    "num_stages": 10,
    "registers": 9,
    "shared": 8,
    "spilled": 7,
    "matrix": 6,
}


def add_command(subparsers: Any) -> None:
    """Add `attncourse kernels` to the command line.

    Parameters
    ----------
    subparsers
        What `argparse.ArgumentParser.add_subparsers` returned.
    """
    command = subparsers.add_parser(
        "kernels",
        help="compile the Triton kernels for a GPU that need not be there",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "--arch", choices=tuple(ARCHS), default="sm_90", help="which GPU, sm_90 by default"
    )
    command.add_argument("--kernel", choices=KERNELS, action="append", help="all by default")
    command.add_argument("--width", type=int, choices=WIDTHS, action="append", help="likewise")
    command.add_argument("--dtype", choices=DTYPES, action="append", help="likewise")
    command.add_argument("--features", choices=FEATURES, action="append", help="likewise")
    command.add_argument("--jobs", type=int, default=1, help="compilers that run at once")
    command.set_defaults(run=_run)


def variants(
    arch: str,
    kernels: Sequence[str] | None = None,
    widths: Sequence[int] | None = None,
    dtypes: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> list[tuple[str, str, int, str, str]]:
    """List what is to be compiled; everything that is not given is taken whole, where it fits.

    Parameters
    ----------
    arch : str
        A key of `attncourse.kernels.blocks.ARCHS`.
    kernels, widths, dtypes, features : sequence, optional
        Some of `KERNELS`, `WIDTHS`, `DTYPES`, `FEATURES`.

    Returns
    -------
    list of tuple
        The arguments of `attncourse.measure.kernel_report.compiled.examine`.

    Examples
    --------
    >>> variants("sm_80", ["dq"], [64], ["float16"], ["causal"])
    [('dq', 'sm_80', 64, 'float16', 'causal')]
    """
    return [
        (kernel, arch, width, dtype, feature)
        for dtype, kernel, width, feature in product(
            dtypes or DTYPES, kernels or KERNELS, widths or WIDTHS, features or FEATURES
        )
        if fits(width, 4 if dtype == "float32" else 2)
        # The kernel of rung `triton_forward` is short because it has no other features.
        and (kernel != "short" or feature in ("plain", "causal"))
    ]


def compile_all(
    wanted: Sequence[tuple[str, str, int, str, str]],
    jobs: int = 1,
    show: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Compile variants in processes of their own.

    Parameters
    ----------
    wanted : sequence of tuple
        From `variants`.
    jobs : int, default 1
        Processes at once.
    show : callable, optional
        Called with each result as it comes.

    Returns
    -------
    list of dict
        What `attncourse.measure.kernel_report.compiled.examine` returned.

    Raises
    ------
    RuntimeError
        When a compilation failed; the message is the compiler's.
    """
    shares = [share for share in (wanted[at::jobs] for at in range(jobs)) if share]
    with ThreadPoolExecutor(max(len(shares), 1)) as pool:
        parts = list(pool.map(lambda share: list(_compile_share(share, show)), shares))
    return [result for part in parts for result in part]


def _compile_share(
    wanted: Sequence[tuple[str, str, int, str, str]],
    show: Callable[[dict[str, Any]], None] | None,
) -> Iterable[dict[str, Any]]:
    """Feed one process, in which Triton is native, and read its answers."""
    command = [
        sys.executable,
        "-m",
        "attncourse.measure.kernel_report.compiled",
        *map(json.dumps, wanted),
    ]
    environment = os.environ | {"TRITON_INTERPRET": "0", "PYTHONIOENCODING": "utf-8"}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=said, encoding="utf-8"
        ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                result = json.loads(line)
                if show is not None:
                    show(result)
                yield result
        if child.returncode:
            said.seek(0)
            raise RuntimeError(f"compiling {list(wanted)} failed:\n{said.read()}")


def faults(result: dict[str, Any]) -> list[str]:
    """Say what is wrong with a compiled variant; nothing when it fits its chip.

    Parameters
    ----------
    result : dict
        From `compile_all`.

    Returns
    -------
    list of str
        One sentence a fault.
    """
    found = []
    limit = ARCHS[result["arch"]]
    if result["spilled"]:
        found.append(f"spills {result['spilled']} bytes")
    if result["shared"] > limit:
        found.append(f"wants {result['shared']} bytes of shared memory, the chip has {limit}")
    if result["dtype"] != "float32":
        wanted = "wgmma" if result["arch"] == "sm_90" and _rows(result) >= 64 else "mma"
        if result["matrix"] != wanted:
            found.append(f"computes its products with {result['matrix']}, not with {wanted}")
    return found


def _rows(result: dict[str, Any]) -> int:
    """Return the rows of a product: wgmma takes 64 and more, which not every tile has room for."""
    block_m, block_n = map(int, result["tile"].split("x"))
    return block_n if result["kernel"] == "dkdv" else block_m


def render(result: dict[str, Any]) -> str:
    """Write one row of the table, with its faults at the end."""
    cells = (f"{result[name]!s:>{width}}" for name, width in _COLUMNS.items())
    wrong = "; ".join(faults(result))
    return " ".join(cells) + (f"  FAILS: {wrong}" if wrong else "")


def _run(arguments: Any) -> int:
    """Print the table as it is made; 1 when a variant does not fit its chip."""
    need("torch", "triton")
    wanted = variants(
        arguments.arch, arguments.kernel, arguments.width, arguments.dtype, arguments.features
    )
    print(" ".join(f"{name:>{width}}" for name, width in _COLUMNS.items()), flush=True)
    results = compile_all(wanted, arguments.jobs, lambda result: print(render(result), flush=True))
    bad = sum(bool(faults(result)) for result in results)
    print(f"{arguments.arch}: {len(results)} variants compiled, {bad} do not fit")
    return int(bad > 0)
