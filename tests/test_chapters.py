"""The chapters as files: the house rules that can be checked without executing anything."""

import json
import os
import re
import subprocess
import sys

import pytest
from built_book import ROOT
from course_claims import asserts
from execute_chapters import chapters_of_the_book

CHAPTERS = chapters_of_the_book(ROOT)
MAX_CODE_LINES, MAX_COLUMNS, MAX_CODE_RUN = 15, 77, 2
DRAWS = re.compile(
    r"\bplotting\.(line|weights|mask|signed|bars|histogram|points|picture|roofline)\(|\bplt\."
)


def cells(path):
    return json.loads(path.read_text(encoding="utf8"))["cells"]


def source(cell):
    return "".join(cell["source"])


def tags(cell):
    return set(cell["metadata"].get("tags", []))


def code_cells(path):
    """Return the code cells that the reader is meant to read: not the stamped first one."""
    return [
        c for c in cells(path) if c["cell_type"] == "code" and "attncourse-setup" not in tags(c)
    ]


each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)


@each_chapter
def test_cells_have_readable_unique_ids(path):
    ids = [c["id"] for c in cells(path)]
    assert len(ids) == len(set(ids))
    assert [i for i in ids if not re.fullmatch(r"[a-z][a-z0-9-]*", i)] == []
    assert [i for i in ids if re.fullmatch(r"[0-9a-f]{8}(-.*)?", i)] == []


@each_chapter
def test_outputs_are_not_stored(path):
    for cell in cells(path):
        if cell["cell_type"] == "code" and "keep_output" not in tags(cell):
            assert cell["outputs"] == [], cell["id"]
            assert cell["execution_count"] is None, cell["id"]


@each_chapter
def test_code_is_short_enough_to_read(path):
    long = []
    for cell in code_cells(path):
        lines = [line for line in source(cell).splitlines() if line.strip()]
        if len(lines) > MAX_CODE_LINES:
            long.append((cell["id"], f"{len(lines)} lines"))
        long += [(cell["id"], line) for line in lines if len(line) > MAX_COLUMNS]
    assert not long


@each_chapter
def test_text_comes_between_code(path):
    run, too_long = 0, []
    for cell in cells(path):
        folded = tags(cell) & {"hide-input", "remove-input", "remove-cell"}
        run = run + 1 if cell["cell_type"] == "code" and not folded else 0
        if run > MAX_CODE_RUN:
            too_long.append(cell["id"])
    assert not too_long


@each_chapter
def test_claim_cells_can_fail(path):
    tagged = [c for c in cells(path) if any(t.startswith("claim-") for t in tags(c))]
    assert tagged, "a chapter checks at least one statement of the ledger"
    assert [c["id"] for c in tagged if not asserts(source(c))] == []


@each_chapter
def test_a_cell_that_is_skipped_somewhere_stores_what_it_prints(path):
    skipped = [c for c in cells(path) if any(t.startswith("needs-") for t in tags(c))]
    bare = [c["id"] for c in skipped if "print(" in source(c) and "keep_output" not in tags(c)]
    assert not bare, "tag them keep_output and nbval-check-output, then tools/keep_outputs.py"
    assert [c["id"] for c in skipped if DRAWS.search(source(c))] == [], "a figure is not stored"


WINDOWS, MACOS = "triton,resource,/proc", "triton,/proc"
RUN = (
    "import sys, nbformat; from pathlib import Path; sys.path.insert(0, 'tools')\n"
    "from execute_chapters import Run, execute\n"
    "path = Path(sys.argv[1])\n"
    "run = execute(Run(path, nbformat.read(path, as_version=4)))\n"
    "sys.exit(f'{run.cell}: {run.failure}' if run.failure else 0)"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "without"),
    [*((number, WINDOWS) for number in (3, 13, 16, 17, 18)), (13, MACOS)],
    ids=str,
)
def test_a_chapter_runs_where_something_is_missing(number, without):
    """Chapters that use Triton or measure memory, on simulated systems: see tests/without."""
    places = os.pathsep.join([str(ROOT / "tests" / "without"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(CHAPTERS[number - 1])],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": places, "ATTNCOURSE_WITHOUT": without},
        capture_output=True,
        encoding="utf-8",
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@each_chapter
def test_figures_are_described(path):
    bare = []
    for cell in code_cells(path):
        if DRAWS.search(source(cell)):
            alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
            if len(alt) < 25:
                bare.append(cell["id"])
    assert not bare


@each_chapter
def test_opening_and_setup(path):
    first, second = cells(path)[:2]
    assert re.match(rf"# {path.stem[:2]} .+", source(first))
    assert second["id"] == "setup"
    assert {"hide-input", "attncourse-setup"} <= tags(second)


@each_chapter
def test_no_file_is_read_by_a_relative_path(path):
    text = "\n".join(source(c) for c in code_cells(path))
    assert not re.search(r"""\bopen\(["'](?!/)|read_csv\(["']|\.\./""", text)


def test_numbers_follow_the_table_of_contents():
    assert [path.stem[:2] for path in CHAPTERS] == [f"{n:02d}" for n in range(1, len(CHAPTERS) + 1)]
