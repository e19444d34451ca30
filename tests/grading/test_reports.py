"""What is read afterwards: no markup of a learner, no hidden test, no formula, no drifting sum."""

import csv
import html.parser
import io
import json
import re
import subprocess
import zipfile
from fractions import Fraction

import mini
import pytest

from attncourse.grading.exercise import load
from attncourse.grading.feedback_page import feedback
from attncourse.grading.grade import blank
from attncourse.grading.gradebook import canvas, gradebook, moodle, safe_cell
from attncourse.grading.gradescope import autograder, results_json
from attncourse.grading.packing import exercise_files, pack, unpack, with_private_tests
from attncourse.grading.page import page
from attncourse.grading.roster import Learner, Pair
from attncourse.grading.summary_page import item_rows, summary
from attncourse.notebook.markup import Html, element, visible

EVIL = "<script>alert(1)</script> <b onload='x'> & \x1b[31m \u202e =cmd()"
SECRET = "expected 0.731"


@pytest.fixture
def spec(exercise):
    return load(exercise)


def result(spec, student="ana", passed=(True, False, False, True), status="graded", message=EVIL):
    """Return a result with one public and one hidden test per question."""
    made = blank(student, spec, status)
    outcomes = iter(passed)
    for entry in made["questions"]:
        for hidden in (False, True):
            ok = next(outcomes)
            entry["tests"].append(
                {
                    "test": f"test_x.py::test_{entry['id']}_{'secret' if hidden else 'open'}",
                    "title": f"{entry['id']} {'secret' if hidden else 'open'} {EVIL}",
                    "hidden": hidden,
                    "passed": ok,
                    "points": "0.5" if ok else "0",
                    "max": "0.5",
                    "message": "" if ok else SECRET if hidden else message,
                    "hints": [f"hint for {entry['id']} <i>", "second tier"],
                    "mistake": "" if ok or hidden else "scaling forgotten",
                }
            )
    made["cells"] = [{"cell": 3, "error": EVIL, "output": EVIL, "seconds": 0.1}]
    extra = {"late": False, "late_seconds": 0, "earned": "1", "points": "1", "on_roster": True}
    return {**made, **extra, "isolation": "bwrap", "file": "a.ipynb", "other_files": []}


class Tags(html.parser.HTMLParser):
    """Collect what a browser would make of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(tag, *pair) for pair in attrs]


def test_a_page_holds_our_markup_and_nobody_elses(spec):
    for text in (feedback(result(spec), spec), summary([result(spec)] * 3, spec)):
        seen = Tags(text)
        assert seen.tags <= {
            *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "strong"),
            *("table", "thead", "tbody", "tr", "td", "th", "span", "pre"),
        }
        assert {(tag, name) for tag, name, _ in seen.attributes} <= {
            *(("html", "lang"), ("meta", "charset"), ("meta", "http-equiv"), ("meta", "content")),
            *(("meta", "name"), ("td", "class"), ("span", "class"), ("p", "class")),
        }
        assert "default-src 'none'" in text
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "http" not in text.replace("http-equiv", "")


def test_a_learner_sees_public_messages_hints_and_no_hidden_test(spec):
    text = feedback(result(spec), spec)
    assert "hidden test 1" in text
    assert "alert(1)" in text, "its own message is shown, as text"
    assert "hint for q1" in text
    assert "second tier" not in text
    for secret in (SECRET, "q1 secret", "test_q1_secret", "test_x.py"):
        assert secret not in text


def test_how_a_process_ended_is_not_told(spec):
    """An exit status would carry eight bits of a hidden input to the learner."""
    made = result(spec)
    made["questions"][0].update(status="died", notes=["it left with exit status 173"])
    text = feedback(made, spec)
    assert "173" not in text
    assert "ended early" in text


def test_every_status_has_words(spec):
    for status in (
        "timeout",
        "memory",
        "died",
        "late",
        "missing",
        "invalid_notebook",
        "grader_error",
    ):
        made = {**result(spec, status=status), "message": "the reason"}
        text = feedback(made, spec)
        assert ("the reason" in text) == (status == "invalid_notebook")
        assert ("not a 0" in text) == (status == "grader_error")


def test_only_markup_is_not_escaped():
    assert element("p", "<", Html("<br>"), css='a"b') == '<p class="a&quot;b">&lt;<br></p>'
    assert visible("a\x00b\u200bc\td\n") == "a\ufffdb\ufffdc\td\n"
    assert "&lt;x&gt;" in page("<x>")


@pytest.mark.parametrize(
    "start", ["=", "+", "-", "@", "\t=", "\r=", " =", "\n=", "'=", '"=', "＝", "|"]
)
def test_a_formula_becomes_text(start):
    assert safe_cell(f"{start}cmd|' /C calc'!A0").startswith("'")


@pytest.mark.parametrize("text", ["a;=1+1", "a; @x", 'a;"=1', "a;;+1", "a\t=1+1"])
def test_a_formula_after_a_semicolon_becomes_text(text):
    """Where a comma writes decimals, a spreadsheet splits lines at semicolons."""
    for part in re.split(r"[;\t]", safe_cell(text)):
        assert not part.lstrip(' "').startswith(("=", "+", "-", "@")), safe_cell(text)
    assert safe_cell("q1; 2 = 1 + 1; a-b") == "q1; 2 = 1 + 1; a-b"


def tables(spec):
    """Return the three gradebooks as rows."""
    pairs = {
        "ana": Pair("ana", Learner("ana", "=Ana", "a@x", "1001"), None),
        "bob": Pair("bob", None, None),
        "eva": Pair("eva", Learner("eva", "Eva"), None),
    }
    results = {name: result(spec, name) for name in pairs}
    results["bob"]["on_roster"] = False
    results["eva"].update(blank("eva", spec, "grader_error", "boom"), earned=None)
    made = (table(results, pairs, spec) for table in (gradebook, canvas, moodle))
    return [list(csv.reader(io.StringIO(text))) for text in made]


def test_gradebooks_have_a_row_each_and_no_guess(spec):
    full, for_canvas, for_moodle = tables(spec)
    assert full[0][6:10] == ["points", "max", "q1", "q2"]
    assert [row[0] for row in full[1:]] == ["ana", "bob", "eva"]
    assert full[3][6] == "", "what is not known stays empty"
    assert full[1][1] == "'=Ana"
    assert for_canvas[0][-1] == "Softmax and attention (mini)"
    assert for_canvas[1] == ["Points Possible", "", "", "", "", "4.5"]
    assert [row[1:3] for row in for_canvas[2:]] == [["1001", "ana"], ["", "eva"]]
    assert [row[3] for row in for_moodle[1:]] == ["1", ""]


def test_items_are_analysed(spec):
    made = [
        result(spec, "a", (True, True, True, True)),
        result(spec, "b", (True, True, True, False)),
        result(spec, "c", (True, False, False, True)),
        result(spec, "d", (True, False, False, False)),
    ]
    rows = {row["test"].rpartition("_")[0] + str(row["hidden"]): row for row in item_rows(made)}
    easy, telling = rows["test_x.py::test_q1False"], rows["test_x.py::test_q1True"]
    assert (easy["passed"], easy["ran"], easy["discrimination"]) == (4, 4, None)
    assert telling["passed"] == 2
    assert telling["discrimination"] > 0.7
    text = summary(made, spec)
    assert "scaling forgotten" in text
    assert "4 of 4 (100 %)" in text


def test_gradescope_gets_scores_and_no_secret(spec):
    text = results_json(result(spec))
    made = json.loads(text)
    assert made["score"] == 1.0
    assert sum(Fraction(str(test["max_score"])) for test in made["tests"]) == 2
    for secret in (SECRET, "q1 secret", "test_q1_secret"):
        assert secret not in text
    with pytest.raises(ValueError, match="no score"):
        results_json(blank("ana", spec, "grader_error"))


def test_the_autograder_is_whole_and_always_the_same(spec, tmp_path):
    data = autograder(spec)
    assert data == autograder(spec)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = set(archive.namelist())
        run = archive.getinfo("run_autograder")
        script = archive.read("run_autograder").decode()
    assert {"setup.sh", "run_autograder", "exercise/exercise.toml"} <= names
    assert "exercise/tests/hidden/test_hidden.py" in names
    assert run.external_attr >> 16 & 0o111
    assert '"score": 0' not in script
    for name, text in (
        ("run", script),
        ("setup", zipfile.ZipFile(io.BytesIO(data)).read("setup.sh").decode()),
    ):
        (tmp_path / name).write_text(text)
        assert subprocess.run(["bash", "-n", tmp_path / name], check=False).returncode == 0


@pytest.mark.parametrize(
    ("first", "asked", "ends"), [(0, ["bwrap"], 0), (1, ["bwrap"], 1), (3, ["bwrap", "user"], 0)]
)
def test_only_walls_that_do_not_stand_lead_to_weaker_ones(spec, tmp_path, first, asked, ends):
    with zipfile.ZipFile(io.BytesIO(autograder(spec))) as archive:
        script = archive.read("run_autograder").decode()
    grader = tmp_path / "grader"
    grader.write_text(f"#!/bin/bash\necho $5 >>{tmp_path}/asked\n[ $5 = user ] || exit {first}\n")
    grader.chmod(0o755)
    (tmp_path / "submission").mkdir()
    (tmp_path / "source").mkdir()
    script = script.replace("/opt/attncourse/bin/attncourse", str(grader))
    script = script.replace("/autograder/", f"{tmp_path}/")
    script = script.replace("/tmp/attncourse.log", f"{tmp_path}/log")
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=False)
    assert done.returncode == ends
    assert (tmp_path / "asked").read_text().split() == asked


def test_an_exercise_travels_and_arrives_the_same(exercise, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data = pack(exercise_files(exercise))
    there = unpack(data)
    assert unpack(data) == there
    assert exercise_files(there) == exercise_files(exercise)
    assert there.parent.stat().st_mode & 0o077 == 0
    with pytest.raises(ValueError, match="leads out"):
        unpack(pack({"../evil.py": b""}))
    there.parent.chmod(0o755)
    with pytest.raises(PermissionError, match="open to others"):
        unpack(data)


def test_private_tests_stand_for_the_public_ones(exercise, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    private = tmp_path / "private/exercise/tests/hidden"
    with pytest.raises(FileNotFoundError, match="no hidden tests"):
        with_private_tests(exercise, tmp_path / "private")
    private.mkdir(parents=True)
    (private / "test_own.py").write_text(mini.HIDDEN)
    files = exercise_files(with_private_tests(exercise, tmp_path / "private"))
    assert [name for name in files if "hidden" in name] == ["tests/hidden/test_own.py"]
    assert "tests/public/test_public.py" in files
