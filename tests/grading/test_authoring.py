"""Writing an exercise: start, lint, build, and the command line for all of it."""

import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from attncourse.cli import main
from attncourse.grading.build import build, bundle, student_text
from attncourse.grading.exercise import ExerciseError, folders, load
from attncourse.grading.format import (
    answer_cells,
    dump,
    marks,
    read_notebook,
    solution_notebook,
    student_notebook,
)
from attncourse.grading.lint import lint
from attncourse.grading.new import new


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a fresh exercise."""
    monkeypatch.setenv("ATTNCOURSE_PROGRESS", str(tmp_path / "progress.json"))
    return new(tmp_path / "21_my_topic", "My topic")


def change(file, old, new_text):
    """Replace a text that must be there."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new_text), encoding="utf-8")


def change_cells(folder, edit):
    """Edit the source notebook's cells."""
    file = folder / "source.ipynb"
    notebook = read_notebook(file)
    edit({cell["id"]: cell for cell in notebook["cells"]})
    file.write_text(dump(notebook), encoding="utf-8")


def test_a_new_exercise_passes_lint_with_everything_run(folder):
    assert lint(load(folder)) == []


@pytest.mark.parametrize(
    ("name", "title", "said"),
    [
        ("my_topic", "x", "must be like 21_my_topic"),
        ("21_my topic", "x", "must be like 21_my_topic"),
        ("21_a", 'say "x"', "without quotation marks"),
    ],
)
def test_new_refuses_what_cannot_be_an_exercise(tmp_path, name, title, said):
    with pytest.raises(ExerciseError, match=said):
        new(tmp_path / name, title)


def test_new_overwrites_nothing(folder):
    with pytest.raises(ExerciseError, match="is there already"):
        new(folder, "again")


def remove_hint(folder):
    file = folder / "tests/public/test_public.py"
    change(file, '"Which axis runs along a row?", ', "")


def break_points(folder):
    change(folder / "exercise.toml", "points = 3", "points = 4")


def output(folder):
    def edit(cells):
        cells["q1-check"]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]

    change_cells(folder, edit)


def magic(folder):
    change_cells(folder, lambda cells: cells["imports"].update(source="%matplotlib inline"))


def no_markers(folder):
    def edit(cells):
        lines = cells["q1-answer"]["source"].split("\n")
        cells["q1-answer"]["source"] = "\n".join(line for line in lines if "###" not in line)

    change_cells(folder, edit)


def other_check(folder):
    change_cells(folder, lambda cells: cells["q1-check"].update(source='exercise.check("q2")'))


def unlocked(folder):
    change_cells(folder, lambda cells: marks(cells["q1-check"]).update(locked=False))


def half_marked(folder):
    change_cells(folder, lambda cells: marks(cells["q1-answer"]).pop("schema_version"))


DEFECTS = [
    (remove_hint, "needs pytest.mark.hint with at least two tiers"),
    (break_points, "the tests of q1 offer 3, exercise.toml 4"),
    (output, "stores an output"),
    (magic, "magics do not run everywhere"),
    (no_markers, "nothing between ### BEGIN and ### END SOLUTION"),
    (other_check, "q1 needs one cell that calls check"),
    (unlocked, "needs grade and locked true"),
    (half_marked, "nbgrader metadata lacks schema_version"),
    (lambda f: shutil.rmtree(f / "tests/hidden"), "q1 has no hidden test"),
    (lambda f: (f / "wrong/q1_wrong_axis.py").unlink(), "q1 needs 2 wrong answers, has 1"),
    (lambda f: (f / "right/q1_loop.py").unlink(), "needs 2 right answers"),
    (lambda f: (f / "solution.md").unlink(), "no section '## q1'"),
    (lambda f: change(f / "wrong/q1_wrong_axis.py", '"""Av', '# """Av'), "SyntaxError"),
    (lambda f: change(f / "wrong/q1_wrong_axis.py", "Which axis is gone?", ""), "needs a hint"),
    (
        lambda f: change(f / "tests/hidden/test_hidden.py", "import pytest", "import os, pytest"),
        "imports os",
    ),
    (
        lambda f: change(f / "tests/hidden/test_hidden.py", "points(2)", "points(2), x"),
        "SyntaxError",
    ),
    (
        lambda f: change(f / "wrong/q1_not_divided.py", ".sum(axis=1)", ".mean(axis=1)"),
        "wrong/q1_not_divided.py loses no points",
    ),
    (
        lambda f: change(f / "right/q1_mean.py", "axis=1", "axis=0"),
        "right/q1_mean.py fails test_public.py::test_two_rows",
    ),
]


@pytest.mark.parametrize(("damage", "said"), DEFECTS)
def test_lint_finds_each_defect(folder, damage, said):
    damage(folder)
    problems = lint(load(folder))
    assert any(said in text for text in problems), problems


@pytest.mark.parametrize(
    ("old", "new_text", "said"),
    [
        ("schema = 1", "schema = 2", "schema is 2, this version reads 1"),
        ('title = "My topic"', "", "title is missing or empty"),
        ('id = "21_my_topic"', 'id = "a b"', "id must be letters, digits and _"),
        ("minutes = 15", "minuets = 15", "unknown settings: minuets"),
        ('"numpy"', '"jax"', "row_average must be 'numpy' or 'torch', got 'jax'"),
        ("points = 3", 'points = "many"', "points must be a number, got 'many'"),
        ("points = 3", "points = 0", "must be > 0"),
        ("seconds = 10", "second = 10", "q1: unknown: second"),
        ("points = 3", "", "a question has no points"),
        ("schema = 1", "schema = ", "Invalid value"),
    ],
)
def test_a_bad_setting_is_refused_with_what_was_wanted(folder, old, new_text, said):
    change(folder / "exercise.toml", old, new_text)
    with pytest.raises(ExerciseError, match=r"exercise\.toml") as error:
        load(folder)
    assert said in str(error.value)


def test_ids_must_differ(folder):
    file = folder / "exercise.toml"
    text = file.read_text()
    block = text[text.index("[[questions]]") : text.index("[callables]")]
    file.write_text(text.replace(block, block + block))
    with pytest.raises(ExerciseError, match="twice: q1"):
        load(folder)


def test_exercises_are_found_by_number_in_ones_own_folder(folder, monkeypatch):
    monkeypatch.setenv("ATTNCOURSE_EXERCISES", str(folder.parent))
    assert folders()[0] == folder.parent
    assert load("21").path == folder.resolve()
    assert load("03").id == "03_query_key_value"


def test_the_guides_commands_find_the_exercise_beside_them(tmp_path, monkeypatch, capsys):
    """After `exercise new exercises/21_my_topic` the id alone is enough."""
    monkeypatch.chdir(tmp_path)
    assert command(capsys, "exercise", "new", "exercises/21_my_topic")[0] == 0
    status, said = command(capsys, "exercise", "kills", "21_my_topic")
    assert (status, "| q1 | Sums, not averages |" in said) == (0, True)
    assert load("21_my_topic").path == tmp_path / "exercises" / "21_my_topic"


def test_the_guides_example_of_a_test_passes_lint(folder):
    guide = (Path(__file__).resolve().parents[2] / "book/instructor_guide.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    (folder / "tests/public/test_public.py").write_text(example, encoding="utf-8")
    assert lint(load(folder)) == []


@pytest.mark.parametrize(
    "words",
    [
        ["grade", "one", "nb.ipynb"],
        ["grade", "batch", "in", "--out", "out"],
        ["grade", "gradescope", "--out", "autograder.zip"],
    ],
)
def test_grading_without_hidden_tests_is_refused(folder, words, tmp_path, monkeypatch, capsys):
    """The installed package holds no hidden tests: nobody may be graded by the public ones."""
    shutil.rmtree(folder / "tests/hidden")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "nb.ipynb").write_text("{}")
    status, said = command(capsys, *words, "--exercise", str(folder))
    assert status == 2
    assert "21_my_topic has no hidden tests" in said
    assert "clone the repository" in said
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()


def test_the_student_notebook_loses_solutions_and_keeps_the_rest(folder):
    source = read_notebook(folder / "source.ipynb")
    student = student_notebook(source)
    answer = answer_cells(student)["q1"]["source"]
    assert "### BEGIN" in answer_cells(source)["q1"]["source"]  # the source itself is untouched
    assert answer.endswith("    # YOUR CODE HERE\n    raise NotImplementedError()")
    assert "matrix.sum" not in answer
    assert [c["metadata"].get("editable") for c in student["cells"]][-1] is False
    assert all(marks(c)["checksum"] for c in student["cells"] if marks(c))


@pytest.mark.parametrize(
    "source",
    ["### BEGIN SOLUTION\nx", "x\n### END SOLUTION", "### BEGIN SOLUTION\n### BEGIN SOLUTION"],
)
def test_a_marker_without_its_partner_is_refused(folder, source):
    change_cells(folder, lambda cells: cells["q1-answer"].update(source=source))
    with pytest.raises(ExerciseError, match=r"without (its partner|END SOLUTION)"):
        student_text(load(folder))


def test_a_solution_that_stands_elsewhere_too_is_not_released(folder):
    line = "return matrix.sum(axis=1) / matrix.shape[1]"
    change_cells(folder, lambda cells: cells["q1-text"].update(source=f"Write: {line}"))
    with pytest.raises(ExerciseError, match="the student notebook would hold"):
        student_text(load(folder))


def test_the_solution_notebook_explains_each_answer(folder):
    text = (folder / "solution.md").read_text()
    solved = solution_notebook(read_notebook(folder / "source.ipynb"), text)
    names = [cell["id"] for cell in solved["cells"]]
    assert names[names.index("q1-answer") + 1] == "why-q1"
    assert "SOLUTION" not in answer_cells(solved)["q1"]["source"]


def test_a_bundle_is_the_same_for_the_same_files(folder, tmp_path):
    assert bundle(load(folder)) == bundle(load(folder))
    student, solution, private = build(load(folder), tmp_path / "out")
    assert student == folder.resolve() / "21_my_topic.ipynb"
    names = zipfile.ZipFile(private).namelist()
    assert "21_my_topic/tests/hidden/test_hidden.py" in names
    assert "21_my_topic/source.ipynb" in names
    assert json.loads(solution.read_text())["nbformat"] == 4


def command(capsys, *words):
    """Run `attncourse` and return its status and what it printed."""
    status = main(words)
    printed = capsys.readouterr()
    return status, printed.out + printed.err


def test_the_commands_from_new_to_check(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ATTNCOURSE_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setenv("ATTNCOURSE_EXERCISES", str(tmp_path))
    place = str(tmp_path / "22_new")
    assert command(capsys, "exercise", "new", place, "--title", "New")[0] == 0
    assert command(capsys, "exercise", "new", place) == (
        2,
        f"attncourse: {place} is there already\n",
    )
    assert command(capsys, "exercise", "lint", place) == (0, "22_new: no problems\n")
    status, said = command(capsys, "exercise", "build", "22", "--out", str(tmp_path / "out"))
    assert status == 0
    assert len(said.splitlines()) == 3
    notebook = str(tmp_path / "22_new" / "22_new.ipynb")
    status, said = command(capsys, "check", notebook)
    assert status == 1
    assert "Nothing is written here yet" in said
    solved = str(tmp_path / "out" / "22_new_solution.ipynb")
    status, said = command(capsys, "check", solved, "--exercise", "22_new")
    assert (status, "1 of 1 points" in said) == (0, True)
    assert "22_new                    ████████████████████ 1 of 1" in command(capsys, "progress")[1]
    assert "22_new                    New: 1 questions" in command(capsys, "exercise", "list")[1]
    assert "| q1 | Sums, not averages |" in command(capsys, "exercise", "kills", "22")[1]


def test_check_reads_a_python_file_and_opens_as_many_hints_as_asked(folder, tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text("def row_average(matrix):\n    return matrix.mean(axis=0)\n")
    words = ["check", str(file), "--exercise", str(folder), "--hints", "2", "--question", "q1"]
    status, said = command(capsys, *words)
    assert status == 1
    number = r"-?[\d.]+(?:e-?\d+)?"
    two, three = (", ".join([number] * count) for count in (2, 3))
    assert re.search(rf"wanted \[{two}\], came \[{three}\]", said), said
    assert "Known mistake: your output equals “Averages of the columns”" in said
    assert said.count("Hint:") == 2


def test_a_cell_that_fails_does_not_stop_the_others(folder, tmp_path, capsys):
    notebook = read_notebook(folder / "source.ipynb")
    first = {"cell_type": "code", "id": "first", "metadata": {}, "source": "%time 1\n1 / 0"}
    notebook["cells"].insert(1, {**first, "outputs": [], "execution_count": None})
    file = tmp_path / "21_my_topic.ipynb"
    file.write_text(dump(notebook))
    status, said = command(capsys, "check", str(file), "--exercise", str(folder))
    assert status == 0
    assert "cell 2: ZeroDivisionError: division by zero (in <module>, line 2: 1 / 0)" in said


@pytest.mark.parametrize(
    "words",
    [
        ["check", "absent.ipynb", "--exercise", "03"],
        ["check", "absent.ipynb"],
        ["exercise", "lint", "99"],
        ["exercise", "build", "99"],
        ["exercise", "kills", "99"],
    ],
)
def test_a_wrong_name_is_said_and_is_no_traceback(words, capsys):
    status, said = command(capsys, *words)
    assert status == 2
    assert said.startswith("attncourse: ")
    assert Path(__file__).name not in said
