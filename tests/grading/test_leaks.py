"""No page of the built book, and nothing beside it, holds a solution or a hidden test."""

from html import unescape

import pytest
from built_book import HTML, ROOT, require_book

from attncourse.grading.build import leaks
from attncourse.grading.exercise import load

SPECS = [load(file.parent) for file in sorted(ROOT.glob("exercises/*/source.ipynb"))]
pytestmark = pytest.mark.book


def texts():
    """Yield each text file of the book, tags and string escapes undone."""
    from re import sub

    for file in sorted(HTML.rglob("*")):
        if file.suffix in {".html", ".js", ".ipynb", ".txt", ".md", ".json", ".py"}:
            text = file.read_text(encoding="utf-8", errors="replace")
            yield file, unescape(sub(r"<[^>]+>", "", text)) + text.replace('\\"', '"')


def test_the_book_holds_no_solution_and_no_hidden_test():
    require_book()
    pages = list(texts())
    assert any(file.name == "03_query_key_value.html" for file, _ in pages)
    for file, text in pages:
        for spec in SPECS:
            assert leaks(spec, text, whole=True) == [], file


def test_no_file_of_an_exercise_but_its_notebook_is_published():
    require_book()
    names = {file.name for file in HTML.rglob("*") if file.is_file()}
    for spec in SPECS:
        assert f"{spec.id}.ipynb" in names
        for part in ("tests/hidden", "right", "wrong"):
            assert not names & {file.name for file in (spec.path / part).glob("*.py")}
    assert not names & {"source.ipynb", "solution.md", "exercise.toml"}


def test_the_scan_sees_a_leak():
    hidden = next((SPECS[0].path / "tests" / "hidden").glob("*.py"))
    line = next(
        line for line in hidden.read_text(encoding="utf-8").splitlines() if "np.geomspace" in line
    )
    assert leaks(SPECS[0], f"<p>{line}</p>", whole=True)
