"""The graded run and the proof agree on every known answer of the exercise that measures memory.

The proof runs in one process, the grader across a wall; an answer must get the same on both sides.
"""

import copy
import json
import sys
from pathlib import Path

import pytest

from attncourse.cli import main
from attncourse.grading.exercise import load
from attncourse.grading.format import dump, marks, read_notebook, solution_notebook
from attncourse.grading.mistakes import read_answers
from attncourse.grading.points import shown
from attncourse.grading.proof import kills

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "exercises" / "16_softmax_in_one_pass"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux"),
    pytest.mark.skipif(not (FOLDER / "source.ipynb").exists(), reason="no solutions here"),
]
# What honest notebooks do before the call whose memory is measured.
BEFORE = {
    "module": "import matplotlib.pyplot",
    "arrays": "import numpy\nkept = numpy.ones(6_000_000)",
    "experiment": "import numpy\nx = numpy.ones((2000, 2000))\nprint((x @ x).sum())\ndel x",
}


@pytest.fixture(scope="module")
def graded(bwrap, tmp_path_factory):
    """Grade each answer as a notebook of its own; return the results by file."""
    spec, place = load(FOLDER), tmp_path_factory.mktemp("zoo")
    solved = solution_notebook(read_notebook(FOLDER / "source.ipynb"), "")
    for kind in ("wrong", "right"):
        for answer in read_answers(spec, kind):
            notebook = copy.deepcopy(solved)
            for cell in notebook["cells"]:
                if marks(cell).get("grade_id") == answer.question:
                    cell["source"] += "\n\n" + answer.source
            (place / f"{kind}-{answer.file}.ipynb").write_text(dump(notebook), encoding="utf-8")
    for name, source in BEFORE.items():
        notebook = copy.deepcopy(solved)
        first = copy.deepcopy(next(cell for cell in notebook["cells"] if not marks(cell)))
        first |= {"cell_type": "code", "source": source, "id": "own", "outputs": []}
        first["execution_count"] = None
        notebook["cells"].insert(0, first)
        (place / f"before-{name}.ipynb").write_text(dump(notebook), encoding="utf-8")
    out = place / "graded"
    words = ["grade", "batch", str(place), "--exercise", str(FOLDER), "--jobs", "2"]
    assert main([*words, "--out", str(out)]) == 0
    return {file.stem: json.loads(file.read_text()) for file in (out / "results").glob("*.json")}


def points(result, question):
    """Return what a question got and what it offers."""
    assert result["status"] == "graded", result["message"]
    entry = next(entry for entry in result["questions"] if entry["id"] == question)
    return entry["points"], entry["max"]


def test_right_answers_get_full_marks(graded):
    for answer in read_answers(load(FOLDER), "right"):
        got, offered = points(graded[f"right-{answer.file}"], answer.question)
        assert got == offered, answer.file


@pytest.mark.parametrize("name", BEFORE)
def test_what_a_notebook_did_before_costs_nothing(graded, name):
    result = graded[f"before-{name}"]
    assert not result["cells"][0]["error"], "it did what it should"
    assert (result["status"], result["points"]) == ("graded", result["max"])


def test_wrong_answers_lose_what_the_proof_says(graded):
    for kill in kills(load(FOLDER)):
        got, _ = points(graded[f"wrong-{kill.mistake.file}"], kill.mistake.question)
        assert got == shown(kill.total - kill.lost), kill.mistake.file


def test_the_grader_names_the_mistakes_that_the_check_names(graded):
    for kill in kills(load(FOLDER)):
        tests = graded[f"wrong-{kill.mistake.file}"]["questions"]
        named = {test["mistake"] for entry in tests for test in entry["tests"]}
        assert (kill.mistake.name in named) == kill.named
