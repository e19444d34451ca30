"""Building a book in which something is wrong: what stands afterwards, and what is said."""

import json
import sys

import nbformat
import pytest
from built_book import ROOT
from course_address import read_address
from tiny_book import build, make_tiny_book, page

pytestmark = pytest.mark.slow
BAD = {
    "before": "print('came before')",
    "claim": (
        "from pathlib import Path\nshare = 0.61 if Path('now').exists() else 0.31\n"
        "assert 0.5 < share, 'too small'",
        ["claim-S1-01"],
    ),
    "after": "print('never printed')",
}
CHAPTERS = {"01_good": {"one": "print('fine')"}, "02_bad": BAD}
MISSING = {"stored": ("import no_triton_here", ["needs-triton", "keep_output"])}


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """Build a book with one broken claim; return its folder, exit status and lines."""
    root = make_tiny_book(tmp_path_factory.mktemp("book"), CHAPTERS)
    return root, *build(root)


def test_the_other_pages_stand_and_the_last_lines_say_so(broken):
    root, code, lines = broken
    assert code == 1
    assert "fine" in page(root, "chapters/01_good")
    assert (root / "_build" / "html" / "index.html").exists()
    assert lines[-2] == "02_bad failed at cell 'claim': AssertionError: too small"
    assert lines[-1].startswith("The other pages stand in _build/html")


def test_the_page_says_at_its_cell_what_was_expected_and_how_to_report_it(broken):
    text = page(broken[0], "chapters/02_bad")
    assert text.count('id="trouble"') == text.count('href="#trouble"') == 1
    cell, note, after = (text.index(part) for part in (
        'id="cell-claim"', 'id="trouble"', 'id="cell-after"',
    ))  # fmt: skip
    assert cell < note < after
    part = text[note:after]
    for words in (
        "assert 0.5 &lt; share, &#x27;too small&#x27;",
        "AssertionError: too small\nshare is 0.31",
        "It may be this machine",
        read_address(ROOT).repository + "/issues",
        "chapters/02_bad.ipynb, cell claim",
        f"Python {sys.version.split()[0]}",
    ):
        assert words in part, words
    assert "Not run: a cell above failed" in text[after:]
    assert "came before</span>" in text or "came before\n" in text
    assert "never printed\n" not in text


def test_it_is_tried_again_and_leaves_no_note_behind_when_it_passes(broken):
    root, now = broken[0], broken[0] / "chapters" / "now"
    now.touch()
    code, lines = build(root, "--strict")
    assert code == 0, lines
    assert "  01_good: unchanged, reused" in lines
    assert 'id="trouble"' not in page(root, "chapters/02_bad"), "the source did not change"
    assert build(root)[1] == [f"The book is up to date: {root / '_build' / 'html'}"]
    now.unlink()
    (root / "attncourse" / "more.py").touch()  # everything runs anew
    code, lines = build(root, "--strict")
    assert (code, lines[-1]) == (1, "Nothing is published (--strict): _build/html is removed.")
    assert not (root / "_build" / "html").exists()


def test_a_page_that_warns_stands_unless_the_build_is_strict(tmp_path):
    root = make_tiny_book(tmp_path, {"01_good": {"one": "print(1)"}}, "See [](nowhere.md).\n")
    code, lines = build(root)
    assert code == 0
    assert lines[-1] == "The pages stand, but building them warned, see above (--strict: failed)."
    assert "Tiny" in page(root, "book/intro")
    outcome = json.loads((root / "_build" / "book.json").read_text(encoding="utf-8"))
    assert outcome["pages"] == "warned"
    code, lines = build(root, "--strict")
    assert code == 1, "a book that warned is not fresh"
    assert any("nowhere.md" in line for line in lines), "the warning is repeated"
    assert not (root / "_build" / "html").exists()


def test_without_triton_the_stored_result_is_shown_with_a_note(tmp_path):
    root = make_tiny_book(tmp_path, {"01_needs": MISSING})
    path = root / "chapters" / "01_needs.ipynb"
    book = nbformat.read(path, as_version=4)
    book.cells[-1].outputs = [nbformat.v4.new_output("stream", name="stdout", text="stored: 42\n")]
    nbformat.write(book, path)
    without = {"ATTNCOURSE_WITHOUT": "triton,resource,/proc"}
    code, lines = build(root, "--strict", PYTHONPATH=str(ROOT / "tests" / "without"), **without)
    assert code == 0, lines
    text = page(root, "chapters/01_needs")
    assert "stored: 42" in text
    assert "Not run here: this cell needs Triton, which comes for Linux only" in text
