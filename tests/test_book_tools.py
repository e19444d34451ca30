"""The book's machinery: the ledger, the execution key, and executing chapters."""

import json
import os
import subprocess
import sys

import nbformat
import pytest
from built_book import ROOT
from course_address import read_address
from course_claims import asserts, bounds, find_problems, held_to, read_claims, summary
from course_execution import cache_folder, execution_key
from course_needs import NEEDS, unmet
from execute_chapters import fill_cache
from jupyter_cache import get_cache

CURRICULUM = [f"S1-{n:02d}" for n in range(1, 24)] + [f"S2-{n:02d}" for n in range(1, 18)]


def make_book(root, **sources):
    """Write a tiny book: a package of one module and one chapter for each source."""
    (root / "attncourse").mkdir()
    (root / "attncourse" / "__init__.py").write_text("ANSWER = 42\n")
    (root / "chapters").mkdir()
    entries = "".join(f"      - file: chapters/{name}\n" for name in sources)
    (root / "_toc.yml").write_text(
        f"format: jb-book\nroot: intro\nparts:\n  - caption: x\n    chapters:\n{entries}"
    )
    for name, source in sources.items():
        cell = nbformat.v4.new_code_cell(source, id="only-cell")
        book = nbformat.v4.new_notebook(cells=[cell])
        nbformat.write(book, root / "chapters" / f"{name}.ipynb")
    return root


def outputs(root, name):
    """Return what the cache holds for a chapter, as text."""
    cache = get_cache(str(cache_folder(root)))
    notebook = nbformat.read(root / "chapters" / f"{name}.ipynb", as_version=4)
    _, merged = cache.merge_match_into_notebook(notebook)
    cache.db.dispose()
    return "".join(o.get("text", "") for o in merged.cells[0].outputs), merged.cells[0].metadata


@pytest.mark.slow
def test_a_changed_package_executes_anew(tmp_path):
    make_book(tmp_path, **{"01_one": "import attncourse\nprint(attncourse.ANSWER)"})
    lines = []
    assert fill_cache(tmp_path, say=lines.append) == []
    first_folder = cache_folder(tmp_path)
    assert outputs(tmp_path, "01_one")[0] == "42\n"

    lines.clear()
    assert fill_cache(tmp_path, say=lines.append) == []
    assert any("unchanged, reused" in line for line in lines)

    (tmp_path / "attncourse" / "__init__.py").write_text("ANSWER = 43\n")
    assert fill_cache(tmp_path, say=lines.append) == []
    assert outputs(tmp_path, "01_one")[0] == "43\n"
    assert not first_folder.exists(), "the cache of the old package is still there"


def failure(root, source):
    """Execute a chapter of one cell and return what is recorded of its failure."""
    make_book(root, **{"01_bad": source})
    (run,) = fill_cache(root, say=lambda _: None)
    return run.trouble


@pytest.mark.slow
def test_a_failed_assertion_says_what_was_expected_and_what_came(tmp_path):
    source = "def share(x):\n    return 2 * x\nx = 0.1\nassert 0.5 < share(x) <= 4 * x, 'off'"
    found = failure(tmp_path, source)
    assert found["expected"] == "assert 0.5 < share(x) <= 4 * x, 'off'"
    assert found["came"] == "AssertionError: off\nshare(x) is 0.2\n4 * x is 0.4"
    assert "----> 4" in found["traceback"]
    assert "\x1b" not in found["traceback"]
    assert "numpy " in found["machine"]


@pytest.mark.slow
def test_a_call_that_asserts_is_what_was_expected(tmp_path):
    found = failure(tmp_path, "import numpy as np\nnp.testing.assert_allclose([1.0], [2.0])")
    assert found["expected"] == "np.testing.assert_allclose([1.0], [2.0])"
    assert "ACTUAL: array([1.])" in found["came"]


@pytest.mark.slow
def test_an_endless_cell_is_stopped_and_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr("execute_chapters.CELL_SECONDS", 3)
    found = failure(tmp_path, "while True:\n    pass")
    assert found["expected"] == "the cell ends within 3 seconds"
    assert found["came"] == "it still ran after 3 seconds and was stopped"
    assert "slow or busy" in found["why"]


@pytest.mark.slow
def test_a_kernel_that_dies_is_recorded(tmp_path):
    found = failure(tmp_path, "import os\nos._exit(3)")
    assert found["expected"] == "the cell runs to its end"
    assert "the process that ran it ended" in found["came"]
    assert "memory" in found["why"]


@pytest.mark.slow
def test_a_value_that_takes_too_long_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("execute_chapters.VALUE_SECONDS", 1)
    slow = "import time\ncalls = []\ndef f():\n    calls.append(time.sleep(9 * len(calls)))\n"
    found = failure(tmp_path, slow + "    return 1\nassert f() > 2")
    assert found["came"] == "AssertionError"


@pytest.mark.slow
def test_a_failed_chapter_is_tried_again_and_keeps_what_came_before(tmp_path):
    make_book(tmp_path, **{"01_good": "print(1)", "02_bad": "print('so far')\nassert not 1"})
    assert len(fill_cache(tmp_path, say=lambda _: None)) == 1
    assert outputs(tmp_path, "02_bad")[0] == "so far\n"
    lines = []
    assert len(fill_cache(tmp_path, say=lines.append)) == 1
    assert [line for line in lines if "unchanged, reused" in line] == [
        "  01_good: unchanged, reused"
    ]


def test_a_need_that_nobody_knows_is_refused():
    assert unmet(["claim-S1-01"]) == []
    with pytest.raises(ValueError, match="no such need: a-gpu; known: triton"):
        unmet(["needs-a-gpu"])


@pytest.mark.slow
def test_a_cell_whose_need_is_missing_is_skipped_and_keeps_its_result(tmp_path, monkeypatch):
    make_book(tmp_path, **{"01_one": "import no_such_module"})
    path = tmp_path / "chapters" / "01_one.ipynb"
    book = nbformat.read(path, as_version=4)
    book.cells[0].metadata["tags"] = ["needs-triton"]
    book.cells[0].outputs = [nbformat.v4.new_output("stream", name="stdout", text="stored\n")]
    nbformat.write(book, path)
    with_it = execution_key(tmp_path)
    monkeypatch.setitem(NEEDS, "no_such_module", "nothing")
    book.cells[0].metadata["tags"] = ["needs-no_such_module"]
    nbformat.write(book, path)
    assert execution_key(tmp_path) != with_it, "what is missing belongs to the key"
    assert fill_cache(tmp_path, say=lambda _: None) == []
    assert outputs(tmp_path, "01_one")[0] == "stored\n"


@pytest.mark.slow
def test_a_failing_cell_is_named_with_its_traceback(tmp_path):
    make_book(tmp_path, **{"01_good": "print(1)", "02_bad": "1 / 0", "03_magic": "%no_such_magic"})
    lines = []
    failures = fill_cache(tmp_path, say=lines.append)
    assert [run.path.stem for run in failures] == ["02_bad", "03_magic"]
    assert {run.cell for run in failures} == {"only-cell"}
    bad = next(run for run in failures if run.path.stem == "02_bad")
    assert "ZeroDivisionError" in bad.failure
    assert any("02_bad: FAILED in cell 'only-cell'" in line for line in lines)


@pytest.mark.slow
def test_a_changed_description_is_served(tmp_path):
    make_book(tmp_path, **{"01_one": "print(1)"})
    fill_cache(tmp_path, say=lambda _: None)
    path = tmp_path / "chapters" / "01_one.ipynb"
    book = nbformat.read(path, as_version=4)
    book.cells[0].metadata["mystnb"] = {"image": {"alt": "a new description"}}
    nbformat.write(book, path)
    fill_cache(tmp_path, say=lambda _: None)
    text, metadata = outputs(tmp_path, "01_one")
    assert (text, metadata["mystnb"]["image"]["alt"]) == ("1\n", "a new description")
    cache = get_cache(str(cache_folder(tmp_path)))
    assert len(cache.list_cache_records()) == 1, "the older version is still kept"
    cache.db.dispose()


def test_the_key_follows_content_and_names(tmp_path):
    make_book(tmp_path)
    keys = [execution_key(tmp_path)]
    (tmp_path / "attncourse" / "widget.js").write_text("1")
    keys.append(execution_key(tmp_path))
    (tmp_path / "attncourse" / "widget.js").rename(tmp_path / "attncourse" / "other.js")
    keys.append(execution_key(tmp_path))
    assert len(set(keys)) == 3
    assert execution_key(tmp_path) == keys[-1]


def test_a_missing_chapter_is_named(tmp_path):
    make_book(tmp_path, **{"01_one": "print(1)"})
    (tmp_path / "chapters" / "01_one.ipynb").unlink()
    with pytest.raises(FileNotFoundError, match=r"01_one\.ipynb"):
        fill_cache(tmp_path)


def test_every_statement_of_the_sources_is_in_the_ledger():
    claims = read_claims(ROOT / "book" / "claims.toml")
    assert [claim["id"] for claim in claims] == CURRICULUM
    for claim in claims:
        assert claim["verdict"] == "shown" or claim.get("note") or claim["chapters"][0] > 4


def test_the_ledger_reports_what_is_not_checked():
    claims = [{"id": "S1-01", "chapters": [1]}, {"id": "S1-02", "chapters": [1]}]
    good = {1: [("S1-01", "cell-a", True), ("S1-02", "cell-b", True)]}
    assert find_problems(claims, good) == []
    untagged = {1: [("S1-01", "cell-a", True)]}
    assert find_problems(claims, untagged) == ["chapter 01 has no cell tagged claim-S1-02"]
    idle = {1: [("S1-01", "cell-a", True), ("S1-02", "cell-b", False)]}
    assert len(find_problems(claims, idle)) == 2
    unknown = {1: [*good[1], ("S9-99", "cell-c", True)]}
    assert find_problems(claims, unknown) == ["chapter 01 #cell-c: unknown claim S9-99"]


def test_a_statement_whose_chapter_is_missing_is_reported():
    claims = [{"id": "S1-01", "chapters": [9]}]
    assert find_problems(claims, {}) == ["chapter 09 has no cell tagged claim-S1-01"]


def test_the_ledger_says_what_was_not_executed_here():
    claims = [{"chapters": [1]}, {"chapters": [2]}]
    assert summary(claims, {}) == "All **2 statements are executed** in this book."
    text = summary(claims, {"chapters/02_two": {"cell": "a"}})
    assert "[](/chapters/02_two.ipynb)" in text
    assert "**was not executed**" in text


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("assert x == 1", True),
        ("np.testing.assert_allclose(a, b)", True),
        ("%matplotlib inline\nassert x", True),
        ("print('assert x')", False),
        ("# assert x", False),
        ("with pytest.raises(ValueError):\n    f()", False),
    ],
)
def test_what_counts_as_an_assertion(code, expected):
    assert asserts(code) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("assert 0.5 < x <= 0.75", ["> 0.5", "<= 0.75"]),
        ("assert -0.03 > x and y > 0.9", ["< -0.03", "> 0.9"]),
        ("np.testing.assert_allclose(a, b, rtol=0.06, atol=1e-09)", ["rtol 0.06", "atol 1e-09"]),
        ("assert x > 0.9\nassert y > 0.9", ["> 0.9"]),
        ("assert len(x) == 3 and i < 7\nz = 0.5 < w", []),
    ],
    ids=str,
)
def test_the_ledger_reads_the_bounds_of_a_check(code, expected):
    assert bounds(code) == expected


def test_only_the_cells_of_a_claim_give_its_bounds(tmp_path):
    cells = [
        {"cell_type": "code", "metadata": {"tags": [tag]}, "source": [f"assert x > {bound}"]}
        for tag, bound in (("claim-S1-01", 0.5), ("claim-S1-02", 0.6), ("claim-S1-01", 0.7))
    ]
    path = tmp_path / "01_x.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    assert held_to(path, "S1-01") == ["> 0.5", "> 0.7"]


def test_a_bad_verdict_is_refused(tmp_path):
    path = tmp_path / "claims.toml"
    path.write_text('[[claim]]\nid="a"\nstatement="b"\nchapters=[1]\nverdict="maybe"\n')
    with pytest.raises(ValueError, match="claim a needs a verdict"):
        read_claims(path)


def test_the_address_is_read_from_one_setting(tmp_path):
    setting = '[tool.attncourse]\nrepository = "https://github.com/Ada/attn/"\n'
    (tmp_path / "pyproject.toml").write_text(setting)
    address = read_address(tmp_path)
    assert (address.slug, address.pages) == ("Ada/attn", "https://ada.github.io/attn/")
    assert address.colab("a.ipynb").endswith("/github/Ada/attn/blob/main/a.ipynb")
    (tmp_path / "pyproject.toml").write_text("")
    with pytest.raises(KeyError, match="repository"):
        read_address(tmp_path)


@pytest.mark.parametrize("without", ["triton", ""], ids=["without", "with"])
def test_nbval_skips_by_name_what_this_machine_lacks(tmp_path, without):
    pytest.importorskip("triton")
    cell = nbformat.v4.new_code_cell("import triton", metadata={"tags": ["needs-triton"]})
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "one.ipynb")
    options = ["-c", str(ROOT / "pyproject.toml"), "-p", "conftest", "--nbval-lax", "-rs"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "without"), str(ROOT)]),
            "ATTNCOURSE_WITHOUT": without,
        },
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    assert ("needs triton" in done.stdout) == bool(without)
    assert f"1 {'skipped' if without else 'passed'}" in done.stdout
