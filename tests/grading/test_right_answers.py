"""Right answers in odd notebooks keep their marks, and a person is told what was odd."""

import sys

import mini
import pytest

from attncourse.grading.exercise import load
from attncourse.grading.feedback_page import feedback
from attncourse.grading.grade import Job, grade
from attncourse.grading.settings import Settings
from attncourse.grading.submissions import Submission, Unreadable
from attncourse.grading.summary_page import summary

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="bubblewrap is for Linux"
)
HELPED = "def softmax(scores):\n    return helper(scores)"
HELPER = mini.SOFTMAX.replace("softmax", "helper")


@pytest.fixture
def graded(exercise, bwrap):
    """Return a function that grades a notebook."""

    def run(data, **settings):
        return grade(Job("ana", data, Settings(str(exercise), **settings)))

    return run


def told(result, exercise):
    """Return what the learner and the instructor read."""
    result = {**result, "late": False, "earned": result["points"], "on_roster": True}
    spec = load(exercise)
    return feedback(result, spec), summary([result], spec)


@pytest.mark.parametrize(
    "line",
    [
        "import no_such_plots as plots",
        "from no_such_plots.deep import sns",
        "import numpy, no_such_plots",
        "from attncourse.reference import attention",
    ],
)
def test_a_module_that_is_missing_is_left_out_and_named(graded, exercise, line):
    result = graded(mini.answers(first=f"{line}\nimport math\nx = math.pi"))
    assert (result["points"], result["status"]) == ("4.5", "graded")
    name = "attncourse.reference" if "attncourse" in line else "no_such_plots"
    assert name in result["message"]
    assert "this import is left out, the rest of the cell runs" in result["cells"][0]["error"]
    for page in told(result, exercise):
        assert name in page


def test_a_missing_module_in_a_function_is_still_an_error(graded):
    wrong = "def softmax(scores):\n    import no_such_plots\n    return scores"
    assert graded(mini.answers(wrong))["questions"][0]["points"] == "0"


def test_a_slow_cell_does_not_cost_the_cells_after_it(graded):
    slow = mini.code("import time\ntime.sleep(60)")
    cells = [mini.code(mini.IMPORT), slow, mini.code(HELPER), mini.code(HELPED, "q1")]
    result = graded(mini.notebook(*cells, mini.code(mini.ATTENTION, "q2")), free_seconds=2)
    assert (result["points"], result["status"]) == ("4.5", "timeout")
    assert "time limit of 2 s is over" in result["cells"][1]["error"]


def test_many_slow_cells_end(graded):
    slow = [mini.code("while True: pass") for _ in range(6)]
    result = graded(mini.notebook(*slow), free_seconds=0.5)
    assert result["seconds"] < 20
    errors = [cell["error"] for cell in result["cells"]]
    assert [("is over" in text) for text in errors] == [True] * 3 + [False] * 3


@pytest.mark.parametrize(
    "cell",
    [
        "%timeit -n 5 -r 2 softmax(np.ones(3))",
        "%%timeit -n 3\nx = softmax(np.ones(3))\n[x for _ in x]",
    ],
)
def test_timing_runs_once(graded, cell):
    count = "calls = []\ndef counted(): calls.append(1)\n"
    cell = cell.replace("softmax(np.ones(3))", "counted()").replace("[x for _ in x]", "[x]")
    last = mini.code("def softmax(scores):\n    return float(len(calls))", "q1")
    result = graded(mini.notebook(mini.code(count), mini.code(cell), last))
    message = result["questions"][0]["tests"][0]["message"]
    assert not result["cells"][1]["error"]
    assert "float" in message or "1.0" in message


def test_a_notebook_that_fails_as_a_whole_is_looked_at(graded, exercise):
    result = graded(mini.answers("def softmax(scores:", "def attention(q:"))
    assert (result["points"], result["status"]) == ("0", "graded")
    look = told(result, exercise)[1].split("To look at")[1].split("Tests")[0]
    assert "ana" in look
    assert "SyntaxError" in look


def test_an_honest_zero_is_not_looked_at(graded, exercise):
    result = graded(mini.answers(mini.WRONG_SOFTMAX, mini.WRONG_ATTENTION))
    assert "Nothing." in told(result, exercise)[1]


def test_the_size_that_is_read_is_a_setting(tmp_path):
    (tmp_path / "a.ipynb").write_bytes(bytes(3 << 20))
    one = Submission("a", str(tmp_path), "a.ipynb")
    assert len(one.read()) == 3 << 20
    with pytest.raises(Unreadable, match="larger than 2 MB: clear the notebook's outputs"):
        one.read(2 << 20)


def test_an_exercise_says_how_long_its_free_cells_may_take(exercise):
    file = exercise / "exercise.toml"
    file.write_text(file.read_text() + "[sandbox]\nfree_seconds = 90\n")
    assert load(exercise).free_seconds == 90
    file.write_text(file.read_text().replace("90", "-1"))
    with pytest.raises(ValueError, match="free_seconds must be from 0"):
        load(exercise)


PRINTS = mini.SOFTMAX.replace(
    "return weights", "print(weights)\n    return None\n    return weights"
)
STEALS = """import inspect
def attention(query, key, value):
    raise ValueError(inspect.getsource(softmax))"""


@pytest.fixture
def following(exercise):
    """Let the small exercise follow through."""
    file = exercise / "exercise.toml"
    file.write_text(file.read_text().replace("schema = 1", "schema = 1\nfollow_through = true"))
    return exercise


def test_a_right_answer_after_a_wrong_one_keeps_its_points(following, graded):
    """One print in place of a return cost two questions that were right."""
    result = graded(mini.answers(PRINTS))
    assert [entry["points"] for entry in result["questions"]] == ["0", "3"]
    page, _ = told(result, following)
    assert "passed with the solution in place of your earlier answers." in page


def test_following_through_gives_nothing_for_wrong_answers(following, graded):
    result = graded(mini.answers(PRINTS, mini.WRONG_ATTENTION))
    assert result["points"] == "0"
    assert graded(mini.answers(last="del softmax"))["points"] != "4.5"


def test_what_has_seen_a_solution_says_nothing(following, graded):
    result = graded(mini.answers(PRINTS, STEALS))
    stolen = "keepdims=True))\n    return weights"
    assert stolen in mini.SOFTMAX
    tests = [test for entry in result["questions"] for test in entry["tests"]]
    assert any("ValueError" in test["message"] for test in tests), "it tried"
    assert not any(stolen in test["message"] for test in tests)
    assert result["points"] == "0"


def test_without_the_setting_nothing_follows(graded):
    assert graded(mini.answers(PRINTS))["points"] == "0"
