"""Execute the chapters in parallel into the cache that the book is built from.

Only what changed runs: a chapter whose code is in the cache of the present package and versions
(see ``book/_ext/course_execution.py``) is reused. Caches of other keys are removed. A chapter that
fails is kept up to the failing cell, with what went wrong, and is tried again next time.
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
from nbclient.exceptions import CellExecutionError, DeadKernelError

ROOT = Path(__file__).absolute().parent.parent
sys.path[:0] = [str(ROOT / "book" / "_ext"), str(ROOT / "tools")]
from course_execution import cache_folder  # noqa: E402
from course_needs import unmet  # noqa: E402
from failures import describe, failed_statement, sides  # noqa: E402

CELL_SECONDS = 180
VALUE_SECONDS = 20
HEARTBEAT_SECONDS = 15
# Local kernels talk over local ports, and one that is stopped complains: neither is progress.
QUIET_KERNEL = ["--log-level=CRITICAL"]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass
class Run:
    """One chapter's execution."""

    path: Path
    notebook: nbformat.NotebookNode
    seconds: float = 0.0
    cell: str = ""
    failure: str = ""
    trouble: dict = field(default_factory=dict)
    reused: bool = field(default=False)
    environment: dict = field(default_factory=dict)
    cell_seconds: int = field(default_factory=lambda: CELL_SECONDS)


class Client(NotebookClient):
    """Execute a notebook, but no cell that needs what this machine lacks."""

    async def async_execute_cell(self, cell, cell_index, **options):
        """Execute one cell; after a failed assertion, ask for the values that it compared."""
        self.at, self.values = cell_index, {}
        if cell.cell_type == "code" and unmet(cell.metadata.get("tags", [])):
            return cell
        try:
            return await super().async_execute_cell(cell, cell_index, **options)
        except CellExecutionError as error:
            statement = failed_statement(cell.source, error.traceback)
            self.values = await self.ask(sides(statement)) if statement else {}
            raise

    async def ask(self, expressions):
        """Return what expressions are now, as ``{expression: text}``; silent if that fails."""
        wanted = {text: text for text in expressions}
        if not wanted:
            return {}
        sent = self.kc.execute("", silent=True, user_expressions=wanted)
        try:
            async with asyncio.timeout(VALUE_SECONDS):
                reply = await self.kc.get_shell_msg()
                while reply["parent_header"].get("msg_id") != sent:
                    reply = await self.kc.get_shell_msg()
        except TimeoutError:
            return {}
        found = reply["content"].get("user_expressions", {})
        return {text: each["data"]["text/plain"] for text, each in found.items() if "data" in each}


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

    client = Client(
        run.notebook,
        extra_arguments=QUIET_KERNEL,
        timeout=run.cell_seconds,
        kernel_name="python3",
        resources={"metadata": {"path": str(run.path.parent)}},
        on_cell_start=note_cell,
        record_timing=False,
    )
    environment = {**kernel_environment(run.path.parent.parent), **run.environment}
    try:
        # ZeroMQ needs a selector loop, which is not the default on Windows.
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(client.async_execute(env=environment))
    except (CellExecutionError, DeadKernelError, TimeoutError, RuntimeError) as error:
        run.failure = str(error) or type(error).__name__
        record_failure(run, client, error)
    run.seconds = time.perf_counter() - start
    return run


def record_failure(run, client, error):
    """Keep what went wrong, and the outputs of the cells before it."""
    index = getattr(client, "at", 0)
    cell = run.notebook.cells[index]
    run.trouble = describe(cell, index, error, getattr(client, "values", {}), run.cell_seconds)
    for later in run.notebook.cells[index:]:
        if later.cell_type == "code":
            shown = later.outputs if later is cell else []
            later.outputs = [each for each in shown if each.output_type != "error"]
    client.set_widgets_metadata()


def split_by_cache(cache, paths):
    """Return the chapters that must run and those that the cache holds."""
    todo, reused = [], []
    for path in paths:
        run = Run(path, nbformat.read(path, as_version=4))
        try:
            run.reused = not cache.match_cache_notebook(run.notebook).data.get("trouble")
        except KeyError:
            run.reused = False
        (reused if run.reused else todo).append(run)
    return todo, reused


def store(cache, run):
    """Keep an executed chapter, its widgets' state and its failure included."""
    data = {"execution_seconds": run.seconds, "trouble": run.trouble}
    bundle = CacheBundleIn(run.notebook, str(run.path), data=data)
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
    """Make the cache hold every chapter of the book, as far as each comes.

    Returns
    -------
    failures : list of Run
        Chapters with a failing cell, in the book's order; empty when all is well.
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
        store(cache, run)
        failures += [run] if run.failure else []
    prune(cache, folder, paths)
    cache.db.dispose()
    return sorted(failures, key=lambda run: paths.index(run.path))
