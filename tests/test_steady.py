"""``make.py steady``: asserts tell by how much they hold, and a lucky one is caught."""

import json
import platform
import sys

import nbformat
import pytest
from built_book import ROOT

sys.path.insert(0, str(ROOT / "tools"))

from execute_chapters import chapters_of_the_book
from steady import report, watch
from steady.__main__ import main
from steady.instrument import instrument, seeded
from steady.variations import ARITHMETIC, SEEDS, Variation, chosen, found


def noted(source, tmp_path, monkeypatch, **names):
    """Run a cell as a chapter's kernel does; return what it noted."""
    notes = tmp_path / "notes.jsonl"
    notes.unlink(missing_ok=True)
    monkeypatch.setenv("STEADY_NOTES", str(notes))
    import numpy as np
    import torch

    exec(
        instrument(source, "a-cell"),
        {"__steady__": watch, "np": np, "torch": torch, "pytest": pytest, **names},
    )
    return [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []


@pytest.mark.parametrize(
    ("source", "holds", "slack"),
    [
        ("assert 0.7 > 0.5", True, 0.2),
        ("assert 0.2 < 0.7 < 1.0", True, 0.3),
        ("assert 0.4 > 0.5, 'a text'", False, -0.1),
        ("assert 0.7 > 0.5 and 0.1 <= 0.15", True, 0.05),
        ("assert all(x > 0.5 for x in (0.9, 0.6))", True, 0.1),
        ("assert all([x > 0.5 for x in (0.9, 0.4)])", False, -0.1),
        ("assert (np.array([3.0, 1.5]) >= 1.0).all()", True, 0.5),
        ("assert (torch.tensor([3.0, 1.5]) >= 2.0).all()", False, -0.5),
        ("for x in (3, 2):\n    assert x > 1", True, 1.0),
        ("with torch.no_grad():\n    assert 2 > 1", True, 1.0),
        ("np.testing.assert_allclose(1.5, 1.0, atol=1.0, rtol=0)", True, 0.5),
        ("np.testing.assert_allclose([1, 4.0], [1, 2.0], rtol=0.5)", False, -1.0),
        ("np.testing.assert_array_less([1, 2], 3)", True, 1.0),
    ],
)
def test_an_assert_tells_its_smallest_slack(source, holds, slack, tmp_path, monkeypatch):
    rows = noted(source, tmp_path, monkeypatch)
    tightest = min(rows, key=lambda row: row["slack"])
    assert tightest["slack"] == pytest.approx(slack)
    assert (tightest["cell"], tightest["holds"]) == ("a-cell", holds)


@pytest.mark.parametrize(
    ("source", "holds"),
    [
        ("assert 'a' < 'b'", True),
        ("assert 1 == 2", False),
        ("assert 3 > 1 or 1 > 3", True),
        ("assert not 3 < 1", True),
        ("assert (np.array([1, 2]) > 0).sum() > 5 if False else True", True),
        ("torch.testing.assert_close(torch.ones(2), torch.zeros(2))", False),
    ],
)
def test_what_has_no_slack_has_a_verdict(source, holds, tmp_path, monkeypatch):
    (row,) = noted(source, tmp_path, monkeypatch)
    assert row["holds"] is holds
    assert "slack" not in row


def test_a_failure_that_the_cell_wants_still_happens(tmp_path, monkeypatch):
    wanted = """
try:
    assert 1 > 2
except AssertionError:
    caught.append("try")
with pytest.raises(AssertionError):
    assert 1 > 2
"""
    caught = []
    assert noted(wanted, tmp_path, monkeypatch, caught=caught) == []
    assert caught == ["try"]


def test_cells_without_asserts_and_magics_are_left_alone():
    for source in ("x = 1", "%matplotlib inline", "ax.set();"):
        assert instrument(source, "a-cell") == source


def test_every_chapter_has_one_seed_to_replace():
    for path in chapters_of_the_book():
        cells = nbformat.read(path, as_version=4).cells
        code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
        assert seeded(code, 5)[1] == 1, f"{path.name}: expected exactly one line 'SEED = 0'"


def test_all_seeds_natively_then_the_other_arithmetic():
    names = [variation.name for variation in chosen(list(SEEDS), list(ARITHMETIC))]
    assert names[:8] == [f"seed {seed}" for seed in range(8)]
    assert names[8:] == ["seed 0, oldest", "seed 0, avx2", "seed 0, two-threads"]


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in {"x86_64", "AMD64"}, reason="names x86 code paths")
def test_the_libraries_really_take_the_older_paths():
    oldest = found(Variation(0, "oldest"))
    assert (oldest["torch"], oldest["openblas"], oldest["numpy"]) == ("DEFAULT", "Nehalem", "")
    assert found(Variation(0, "avx2"))["torch"] in {"AVX2", "DEFAULT"}
    assert found(Variation(0, "two-threads"))["threads"] == 2


def make_book(root, source):
    """Write a book of one chapter."""
    for folder in ("attncourse", "chapters"):
        (root / folder).mkdir()
    toc = "format: jb-book\nroot: intro\nparts:\n  - chapters:\n      - file: chapters/01_one\n"
    (root / "_toc.yml").write_text(toc)
    cell = nbformat.v4.new_code_cell(f"SEED = 0\n{source}", id="only-cell")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), root / "chapters" / "01_one.ipynb")
    return root


LUCKY = """
import numpy as np
score = np.random.default_rng(SEED).normal()
assert score > 0.1
"""


@pytest.mark.slow
def test_a_lucky_assert_is_caught_and_a_true_one_is_not(tmp_path, capsys):
    command = ["--root", str(make_book(tmp_path, LUCKY)), "--arithmetic", "native"]
    assert main([*command, "--seeds", "0"]) == 0, "with its own seed the lucky assert holds"
    assert main([*command, "--seeds", "0", "1", "4"]) == 1
    out = capsys.readouterr().out
    assert "3 runs, 1 of them kept from before" in out
    assert "FAILED   01_one, seed 4, cell 'only-cell': score > 0.1" in out
    results = json.loads((tmp_path / "benchmarks/results/steady.json").read_text())
    chapter = results["chapters"]["01_one"]
    assert {name for name, run in chapter["runs"].items() if run["failed"]} == {"seed 4"}
    assert chapter["asserts"][0]["at"] == "seed 4"
    assert chapter["asserts"][0]["slack"] == pytest.approx(-0.7518, abs=1e-3)


@pytest.mark.slow
def test_a_chapter_that_breaks_off_is_not_green(tmp_path, capsys):
    root = make_book(tmp_path, "assert SEED == 0\nif SEED: raise KeyError('lost')")
    assert main(["--root", str(root), "--arithmetic", "native", "--seeds", "0", "1"]) == 1
    out = capsys.readouterr().out
    assert "STOPPED  01_one, seed 1, cell 'only-cell': KeyError: 'lost'" in out


def test_a_chapter_without_its_line_is_refused(tmp_path):
    root = make_book(tmp_path, "SEED = 0")
    with pytest.raises(SystemExit, match=r"01_one\.ipynb has 2 lines 'SEED = 0'"):
        main(["--root", str(root), "--arithmetic", "native", "--seeds", "0"])


def test_only_asserts_whose_numbers_moved_are_reported():
    def run(value):
        rows = [("same", 1.0), ("moved", value)]
        notes = [
            {"cell": cell, "line": 1, "text": "a < b", "holds": True, "slack": x, "left": 0.0,
             "right": x}
            for cell, x in rows
        ]  # fmt: skip
        return {"seconds": 1.0, "stopped": None, "notes": notes}

    summary = report.summary({"seed 0": run(0.5), "seed 1": run(0.3)})
    (row,) = summary["asserts"]
    assert (row["cell"], row["slack"], row["at"]) == ("moved", 0.3, "seed 1")
    assert report.is_green(summary)
