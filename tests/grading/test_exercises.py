"""The exercises grade: right answers get everything, wrong ones lose, the stub gets nothing."""

import ast
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from attncourse.grading.build import leaks, student_text
from attncourse.grading.exercise import load
from attncourse.grading.format import (
    dump,
    marks,
    program,
    read_notebook,
    solution_bodies,
    solution_notebook,
)
from attncourse.grading.lint import lint
from attncourse.grading.mistakes import nearest, read_answers
from attncourse.grading.plugin import TestResult
from attncourse.grading.proof import kills, kills_page, prove
from attncourse.grading.student import Asked

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted(file.parent for file in ROOT.glob("exercises/*/source.ipynb"))
every = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
if not FOLDERS:
    pytest.skip("a source archive holds no solutions to test", allow_module_level=True)
# What a check cannot name: the two that fail only where memory is measured.
NAMELESS = {"q4_builds_the_square", "q4_zeros_when_long"}


@cache
def killed(folder):
    """Grade an exercise's wrong answers once."""
    return kills(load(folder))


@every
def test_the_book_leads_to_an_exercise_and_its_chapter_too(folder):
    place = f"exercises/{folder.name}/{folder.name}"
    assert place in (ROOT / "_toc.yml").read_text("utf-8")
    assert f"{place}.ipynb" in (ROOT / "book" / "exercises.md").read_text("utf-8")
    (chapter,) = (ROOT / "chapters").glob(f"{folder.name[:2]}_*.ipynb")
    assert f"{place}.ipynb" in chapter.read_text("utf-8")


@every
def test_an_exercise_is_as_large_as_promised(folder):
    spec = load(folder)
    assert 3 <= len(spec.questions) <= 6
    assert 30 <= spec.minutes <= 60
    assert len(read_answers(spec, "wrong")) >= 8
    assert len(read_answers(spec, "right")) >= 2


@every
def test_lint_finds_nothing(folder):
    assert lint(load(folder), run=False) == []


@every
def test_solution_and_right_answers_pass_and_the_stub_fails_every_test(folder):
    assert prove(load(folder), zoo=False) == []


@every
def test_every_wrong_answer_loses_points_in_a_test_with_a_name(folder):
    for kill in killed(folder):
        assert kill.lost > 0, kill.mistake.file
        assert kill.public or kill.hidden, kill.mistake.file


@pytest.mark.parametrize("file", ["q4_nan", "q4_zeros"])
def test_the_right_shape_alone_earns_nothing(file):
    (kill,) = (kill for kill in killed(FOLDERS[0]) if kill.mistake.file == file)
    assert kill.lost == kill.total


@pytest.mark.parametrize(
    ("number", "file"),
    [
        ("03", "q2_scores_changed_in_place"),
        ("04", "q4_grad_changed_in_place"),
        ("04", "q4_table_is_built"),
        ("07", "q2_as_wide_as_the_longest"),
        ("12", "q3_positions_changed_in_place"),
        ("16", "q1_smaller_scores_ignored"),
        ("16", "q2_maximum_has_a_floor"),
        ("16", "q2_state_changed_in_place"),
    ],
)
def test_what_once_got_full_marks_fails_exactly_one_test(number, file):
    """Each is right but for one thing, and one test of its own sees that."""
    folder = next(folder for folder in FOLDERS if folder.name.startswith(number))
    (kill,) = (kill for kill in killed(folder) if kill.mistake.file == file)
    assert (kill.public, kill.hidden) == ([], 1)


def bodies(source):
    """Return each function's body, without its docstring, as text that formatting cannot change."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            rest = node.body[1:] if ast.get_docstring(node) else node.body
            found[node.name] = ast.unparse(rest)
    return found


@every
def test_no_wrong_answer_holds_a_right_function(folder):
    """The installed package holds `wrong`: a solution must not stand there word for word."""
    solved = solution_notebook(read_notebook(folder / "source.ipynb"), "")
    right = bodies(program(solved))
    assert right
    for answer in read_answers(load(folder), "wrong"):
        shared = [name for name, body in bodies(answer.source).items() if body == right.get(name)]
        assert not shared, f"{answer.file}: {shared}"


@every
def test_a_mistake_that_fails_a_public_test_is_named(folder):
    nameless = {kill.mistake.file for kill in killed(folder) if kill.public and not kill.named}
    assert nameless <= NAMELESS


def test_the_page_of_known_mistakes_is_what_was_found():
    page = kills_page([(load(folder), killed(folder)) for folder in FOLDERS])
    assert (ROOT / "book" / "known_mistakes.md").read_text(encoding="utf-8") == page, (
        "run: attncourse exercise kills --write book/known_mistakes.md"
    )


@every
def test_the_student_notebook_is_what_build_makes(folder):
    stored = (folder / f"{folder.name}.ipynb").read_text(encoding="utf-8")
    assert stored == student_text(load(folder)), f"run: attncourse exercise build {folder.name}"


@every
def test_the_source_is_stored_as_build_would_store_it(folder):
    source = folder / "source.ipynb"
    assert source.read_text(encoding="utf-8") == dump(read_notebook(source))


@every
def test_the_student_notebook_holds_no_secret(folder):
    spec = load(folder)
    cells = read_notebook(folder / f"{folder.name}.ipynb")["cells"]
    text = "\n".join(cell["source"] for cell in cells)
    assert leaks(spec, text) == []
    assert "BEGIN SOLUTION" not in text
    for body in solution_bodies(read_notebook(folder / "source.ipynb")).values():
        assert leaks(spec, f"{text}\n{body}") or len(body.strip()) < 24
    assert [m["locked"] for c in cells if (m := marks(c)) and m["grade"]] == [True] * len(
        spec.questions
    )


@pytest.fixture
def copied(tmp_path):
    """Return a copy of exercise 03 that a test may break."""
    return Path(shutil.copytree(FOLDERS[0], tmp_path / FOLDERS[0].name))


def test_a_test_that_grades_nothing_is_found(copied):
    """The proof itself can fail: tests that always pass let the wrong answers live."""
    for file in copied.glob("tests/*/test_*.py"):
        text = file.read_text(encoding="utf-8").replace("close(", "(lambda *_, **__: None)(")
        file.write_text(text, encoding="utf-8")
    problems = prove(load(copied))
    assert any("q4_scale_forgotten.py loses no points" in text for text in problems)


def test_a_test_that_is_too_strict_is_found(copied):
    file = next(copied.glob("tests/hidden/test_*.py"))
    text = file.read_text(encoding="utf-8").replace("values[row]", "values[row] + 1e-3")
    file.write_text(text, encoding="utf-8")
    problems = prove(load(copied))
    assert any(text.startswith("the solution (seed None) fails") for text in problems)


def test_a_stub_that_passes_is_found(copied):
    file = next(copied.glob("tests/public/test_*.py"))
    addition = '\n\n@pytest.mark.question("q1")\ndef test_free(student):\n    pass\n'
    file.write_text(file.read_text(encoding="utf-8") + addition, encoding="utf-8")
    assert any("the stub passes" in text and "test_free" in text for text in prove(load(copied)))


def test_large_arguments_are_not_replayed():
    """In the grader a test may hand on what the learner gave: a mistake is not run on that."""
    spec, huge = load(FOLDERS[0]), np.ones((60_000, 1))
    ask = {"do": "call", "name": "softmax", "kwargs": {}}
    small = Asked({**ask, "args": (np.ones((2, 2)),)}, np.full((2, 2), 0.25), failed=False)
    large = Asked({**ask, "args": (huge,)}, huge / 60_000, failed=False)
    for trace, names in (([small], {"One sum for the whole matrix"}), ([large], set())):
        row = TestResult("t", "q2", 1, "failed", "", [], trace=trace)
        assert {m.name for m in nearest(spec, [row]).values()} == names
