"""Execute the chapters in parallel into the cache that the book is built from.

Only what changed runs: a chapter whose code is in the cache of the present package and versions
(see ``book/_ext/course_execution.py``) is reused. Caches of other keys are removed.
"""

import asyncio
import os
import shutil
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import yaml
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT / "book" / "_ext"))
from course_execution import cache_folder  # noqa: E402

CELL_SECONDS = 180
HEARTBEAT_SECONDS = 15
# Local kernels talk over local ports; their notice about it would hide the progress.
QUIET_KERNEL = ["--log-level=ERROR"]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass
class Run:
    """One chapter's execution."""

    path: Path
    notebook: nbformat.NotebookNode
    seconds: float = 0.0
    cell: str = ""
    failure: str = ""
    reused: bool = field(default=False)
    environment: dict = field(default_factory=dict)
    cell_seconds: int = CELL_SECONDS


def chapters_of_the_book(root=ROOT):
    """List the notebooks that ``_toc.yml`` names, in order."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf8"))
    files = [entry["file"] for part in toc["parts"] for entry in part["chapters"]]
    paths = [root / f"{name}.ipynb" for name in files if name.startswith("chapters/")]
    missing = [path.name for path in paths if not path.exists()]
    if missing:
        raise FileNotFoundError(f"_toc.yml names chapters that do not exist: {missing}")
    return paths


def kernel_environment(root=ROOT):
    """Return the environment of a chapter's kernel: one thread, this checkout's package."""
    path = os.pathsep.join(p for p in (str(root), os.environ.get("PYTHONPATH")) if p)
    return {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": path}


def execute(run):
    """Execute one chapter in place; a failure is recorded, not raised."""
    start = time.perf_counter()

    def note_cell(cell, cell_index):
        run.cell = cell.get("id", str(cell_index))

    environment = {**kernel_environment(run.path.parent.parent), **run.environment}
    client = NotebookClient(
        run.notebook,
        extra_arguments=QUIET_KERNEL,
        timeout=run.cell_seconds,
        kernel_name="python3",
        resources={"metadata": {"path": str(run.path.parent)}},
        on_cell_start=note_cell,
        record_timing=False,
    )
    try:
        # ZeroMQ needs a selector loop, which is not the default on Windows.
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(client.async_execute(env=environment))
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        run.failure = str(error)
    run.seconds = time.perf_counter() - start
    return run


def split_by_cache(cache, paths):
    """Return the chapters that must run and those that the cache holds."""
    todo, reused = [], []
    for path in paths:
        run = Run(path, nbformat.read(path, as_version=4))
        try:
            cache.match_cache_notebook(run.notebook)
        except KeyError:
            todo.append(run)
        else:
            run.reused = True
            reused.append(run)
    return todo, reused


def store(cache, run):
    """Keep an executed chapter, its widgets' state included."""
    bundle = CacheBundleIn(run.notebook, str(run.path), data={"execution_seconds": run.seconds})
    cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


def run_all(todo, workers, say):
    """Execute chapters side by side, yielding each as it ends."""
    with ThreadPoolExecutor(workers) as pool:
        running = {pool.submit(execute, run): run for run in todo}
        start = time.perf_counter()
        while running:
            done, _ = wait(running, timeout=HEARTBEAT_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                running.pop(future)
                yield future.result()
            if not done:
                names = ", ".join(f"{r.path.stem} at {r.cell}" for r in running.values() if r.cell)
                say(f"  … {time.perf_counter() - start:.0f} s: {names}")


def prune(cache, folder, paths):
    """Remove caches of older packages, and older versions of the chapters from this one."""
    for other in folder.parent.iterdir():
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    keep = {cache.match_cache_notebook(nbformat.read(path, as_version=4)).pk for path in paths}
    for record in cache.list_cache_records():
        if record.pk not in keep:
            cache.remove_cache(record.pk)


def fill_cache(root=ROOT, workers=2, say=print):
    """Make the cache hold every chapter of the book.

    Returns
    -------
    failures : list of Run
        Chapters with a failing cell; empty when all is well.
    """
    folder = cache_folder(root)
    folder.mkdir(parents=True, exist_ok=True)
    cache = get_cache(str(folder))
    paths = chapters_of_the_book(root)
    todo, reused = split_by_cache(cache, paths)
    for run in reused:
        say(f"  {run.path.stem}: unchanged, reused")
    failures = []
    for number, run in enumerate(run_all(todo, workers, say), start=1):
        state = f"FAILED in cell '{run.cell}'" if run.failure else "executed"
        say(f"  [{number}/{len(todo)}] {run.path.stem}: {state} after {run.seconds:.1f} s")
        if run.failure:
            failures.append(run)
        else:
            store(cache, run)
    if not failures:
        prune(cache, folder, paths)
    cache.db.dispose()
    return failures
