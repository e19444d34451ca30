"""Measure ``import attncourse`` against ``import numpy``, in one run.

    python benchmarks/import_time.py

Fresh processes, the kinds in turn; each reports the seconds of its own import statement. The
medians and their ratios are printed. ``import attncourse`` alone imports its modules on first use,
so ``import attncourse.reference`` is measured too: it needs NumPy at once. The promise is a ratio
of at most 1.5 for both: the exit code is 1 where it is broken.
"""

import argparse
import platform
import statistics
import subprocess
import sys

PROMISE = 1.5
NAMES = ("numpy", "attncourse", "attncourse.reference")
CODE = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def seconds(module):
    """Return how long a fresh process takes to import a module."""
    command = [sys.executable, "-c", CODE.format(module)]
    return float(subprocess.check_output(command, encoding="utf-8", timeout=60))


def measure(pairs):
    """Return the median seconds of each import, taken in turn."""
    for name in NAMES:  # warm the disk and the byte code
        seconds(name)
    taken = {name: [] for name in NAMES}
    for _ in range(pairs):
        for name in NAMES:
            taken[name].append(seconds(name))
    return {name: statistics.median(values) for name, values in taken.items()}


def main():
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15)
    medians = measure(parser.parse_args().pairs)
    ratios = {name: value / medians["numpy"] for name, value in medians.items()}
    for name, value in medians.items():
        print(f"import {name:<22}{1000 * value:7.1f} ms   {ratios[name]:.2f} x numpy")
    worst = max(ratios.values())
    print(f"worst {worst:.2f}, promised at most {PROMISE} (Python {platform.python_version()})")
    return 0 if worst <= PROMISE else 1


if __name__ == "__main__":
    raise SystemExit(main())
