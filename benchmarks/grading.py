"""Measure the bulk grader: seconds and memory for a number of honest submissions.

Run ``python benchmarks/grading.py --exercise 03_query_key_value --submissions 30 --jobs 2``.
The submissions are the exercise's own solution. Nothing is asserted: it prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from attncourse.grading.exercise import load


def solution(exercise) -> bytes:
    """Return the exercise's authored notebook, solutions and all."""
    return (exercise.path / "source.ipynb").read_bytes()


def watch_memory(process: psutil.Process, peaks: dict[str, int], stop: threading.Event) -> None:
    """Keep the largest memory of the batch itself, and of it with all that it started."""
    while not stop.wait(0.1):
        try:
            own = process.memory_info().rss
            family = [child.memory_info() for child in process.children(recursive=True)]
        except psutil.Error:
            continue
        peaks["batch"] = max(peaks["batch"], own)
        peaks["together"] = max(peaks["together"], own + sum(each.rss for each in family))


def measure(exercise: str, submissions: int, jobs: int, executor: str) -> dict:
    """Grade and measure."""
    found = load(exercise)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "subs").mkdir()
        for number in range(submissions):
            (folder / f"subs/s{number:04d}.ipynb").write_bytes(solution(found))
        words = ["-P", "-m", "attncourse", "grade", "batch", str(folder / "subs")]
        words += ["--exercise", str(found.path), "--jobs", str(jobs), "--executor", executor]
        peaks, stop = {"batch": 0, "together": 0}, threading.Event()
        began = time.perf_counter()
        run = subprocess.Popen(
            [sys.executable, *words, "--out", str(folder / "out")], stderr=subprocess.DEVNULL
        )
        arguments = psutil.Process(run.pid), peaks, stop
        watcher = threading.Thread(target=watch_memory, args=arguments)
        watcher.start()
        code = run.wait()
        seconds = time.perf_counter() - began
        stop.set()
        watcher.join()
        files = (folder / "out/results").glob("*.json")
        results = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    return {
        "exercise": found.id,
        "libraries": sorted(set(found.callables.values())),
        "submissions": submissions,
        "jobs": jobs,
        "executor": executor,
        "exit status": code,
        "with full marks": sum(each["points"] == each["max"] for each in results),
        "seconds": round(seconds, 2),
        "seconds per submission": round(seconds / submissions, 3),
        "batch MB": peaks["batch"] >> 20,
        "all processes MB": peaks["together"] >> 20,
        "load before": round(os.getloadavg()[0], 1),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exercise", required=True)
    parser.add_argument("--submissions", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--executor", default="local")
    options = parser.parse_args()
    print(
        json.dumps(measure(options.exercise, options.submissions, options.jobs, options.executor))
    )


if __name__ == "__main__":
    main()
