"""Execute every chapter under other seeds and other arithmetic, and say what does not hold.

    python make.py steady                                 everything (about 25 minutes on two cores)
    python make.py steady --chapters 10 14                only these
    python make.py steady --seeds 0 1 --arithmetic native avx2

A finished run is kept in _build/steady and reused while its chapter, the package and the versions
stay the same: after a break, the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in ("tools", "book/_ext", "benchmarks"):
    sys.path.insert(0, str(ROOT / folder))

import nbformat  # noqa: E402
from course_execution import execution_key, hash_files  # noqa: E402
from execute_chapters import Run, chapters_of_the_book, run_all  # noqa: E402
from processes import lossless, say  # noqa: E402

from steady import report  # noqa: E402
from steady.instrument import instrument, seeded  # noqa: E402
from steady.variations import ARITHMETIC, SEEDS, Variation, chosen, found  # noqa: E402

CELL_SECONDS = 1200  # the machine may be busy: here what holds matters, not how fast
IMPORT = "from steady import watch as __steady__"


def prepared(path: Path, variation: Variation, notes: Path) -> Run:
    """Make the instrumented copy of a chapter that a variation executes."""
    notebook = nbformat.read(path, as_version=4)
    replaced = 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source, count = seeded(cell.source, variation.seed)
            cell.source = instrument(cell.source, cell.id)
            replaced += count
    if replaced != 1:
        raise SystemExit(f"{path.name} has {replaced} lines 'SEED = 0', expected one to replace")
    notebook.cells.insert(0, nbformat.v4.new_code_cell(IMPORT, id="steady-watch"))
    seen = os.pathsep.join(map(str, (path.parent.parent, ROOT / "tools")))
    environment = {**variation.environment, "STEADY_NOTES": str(notes), "PYTHONPATH": seen}
    return Run(path, notebook, environment=environment, cell_seconds=CELL_SECONDS)


class Kept:
    """The finished runs in ``_build/steady``, one file a run."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / "_build" / "steady"
        self.folder.mkdir(parents=True, exist_ok=True)
        tools = Path(__file__).parent.glob("*.py")
        self.key = execution_key(root) + hash_files(tools, ROOT)

    def path(self, chapter: Path, variation: Variation) -> Path:
        """Name the file of a run after everything that it depends on."""
        digest = hashlib.sha256(self.key.encode() + chapter.read_bytes())
        digest.update(repr((variation, sorted(variation.environment.items()))).encode())
        return self.folder / f"{chapter.stem}-{digest.hexdigest()[:16]}.json"

    def read(self, chapter: Path, variation: Variation) -> dict | None:
        """Return a finished run, or None."""
        path = self.path(chapter, variation)
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def write(self, chapter: Path, variation: Variation, result: dict) -> None:
        """Keep a finished run; a break leaves the file whole or absent."""
        path = self.path(chapter, variation)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(result), encoding="utf-8")
        part.replace(path)


def result_of(run: Run, notes: Path) -> dict:
    """Collect what a finished execution noted."""
    lines = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    plain = re.sub(r"\x1b\[[0-9;]*m", "", run.failure).strip()
    stopped = {"cell": run.cell, "error": plain.splitlines()[-1][:300]} if plain else None
    rows = [json.loads(line) for line in lines]
    return {"seconds": run.seconds, "stopped": stopped, "notes": rows}


def try_all(root: Path, chapters: list[Path], variations: list[Variation], workers: int) -> dict:
    """Execute what is not kept yet; return for each chapter its runs by variation."""
    kept, todo = Kept(root), {}
    with tempfile.TemporaryDirectory() as scratch:
        for number, (chapter, variation) in enumerate(
            (c, v) for c in chapters for v in variations if kept.read(c, v) is None
        ):
            notes = Path(scratch, f"{number}.jsonl")
            run = prepared(chapter, variation, notes)
            todo[id(run)] = run, variation, notes
        total, start = len(chapters) * len(variations), time.monotonic()
        say(f"{total} runs, {total - len(todo)} of them kept from before")
        runs = [run for run, *_ in todo.values()]
        for done, run in enumerate(run_all(runs, workers, say), start=1):
            _, variation, notes = todo[id(run)]
            result = result_of(run, notes)
            kept.write(run.path, variation, result)
            failed = sum(not row["holds"] for row in result["notes"])
            state = "held" if not (failed or run.failure) else f"FAILED: {failed} asserts"
            state += f", stopped in '{run.cell}'" if run.failure else ""
            left = (time.monotonic() - start) / done * (len(todo) - done) / 60
            say(
                f"  [{done}/{len(todo)}] {run.path.stem}, {variation.name}: {state}, "
                f"{run.seconds:.1f} s; about {left:.0f} min left"
            )
    return {c.stem: {v.name: kept.read(c, v) for v in variations} for c in chapters}


def write(path: Path, variations: list[Variation], chapters: dict) -> None:
    """Write the results; chapters that were not tried this time keep what stands there."""
    from record import circumstances
    from record import write as write_json

    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    now = circumstances(__file__) | {"script": "tools/steady"}
    for chapter in chapters.values():
        chapter["date"], chapter["torch"] = now["date"], now["torch"]
    merged = {**before.get("chapters", {}), **chapters}
    paths = {**before.get("arithmetic", {}), **{v.arithmetic: found(v) for v in variations}}
    content = {**now, "arithmetic": paths, "chapters": dict(sorted(merged.items()))}
    write_json(path, content)


def main(arguments: list | None = None) -> int:
    """Run the command line; return 1 where something does not hold."""
    lossless()
    parser = argparse.ArgumentParser(prog="make.py steady", description=__doc__.splitlines()[0])
    parser.add_argument("--chapters", nargs="+", metavar="NN", help="such as 09 14; all by default")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--arithmetic", nargs="+", choices=ARITHMETIC, default=list(ARITHMETIC))
    parser.add_argument("--workers", type=int, default=2, help="chapters executed side by side")
    parser.add_argument("--out", type=Path, help="results file")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    every = chapters_of_the_book(options.root)
    wanted = options.chapters or [path.stem for path in every]
    chapters = [path for path in every if any(path.stem.startswith(name) for name in wanted)]
    unknown = [n for n in wanted if not any(path.stem.startswith(n) for path in every)]
    if unknown:
        parser.error(f"no chapter starts with {', '.join(unknown)}")
    variations = chosen(options.seeds, options.arithmetic)
    for name in options.arithmetic:
        say(f"{name:<12}{found(Variation(options.seeds[0], name))}")
    runs = try_all(options.root, chapters, variations, options.workers)
    summaries = {stem: report.summary(by_variation) for stem, by_variation in runs.items()}
    out = options.out or options.root / "benchmarks" / "results" / "steady.json"
    write(out, variations, summaries)
    say("\n" + "\n".join(report.table(summaries)))
    green = all(map(report.is_green, summaries.values()))
    say(f"\n{'all hold' if green else 'NOT steady'}; every number in {out}")
    return 0 if green else 1


if __name__ == "__main__":
    raise SystemExit(main())
