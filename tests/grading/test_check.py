"""The instant check, read as a learner: what it says, what it names, and what it leaves alone."""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from attncourse.grading import Exercise
from attncourse.grading.check import CheckFailed
from attncourse.grading.exercise import ExerciseError
from attncourse.grading.progress import Progress

ROOT = Path(__file__).resolve().parents[2]
ID = "03_query_key_value"


@pytest.fixture(autouse=True)
def progress(tmp_path, monkeypatch):
    """Keep progress in a file of the test's own."""
    file = tmp_path / "progress.json"
    monkeypatch.setenv("ATTNCOURSE_PROGRESS", str(file))
    monkeypatch.delenv("ATTNCOURSE_CHECK_RAISES", raising=False)
    return file


@pytest.fixture
def exercise():
    return Exercise(ID)


def softmax(scores):
    powers = np.exp(scores)
    return powers / powers.sum(axis=-1, keepdims=True)


def right(query, key, value):
    return softmax(query @ key.T / np.sqrt(query.shape[-1])) @ value


def unscaled(query, key, value):
    return softmax(query @ key.T) @ value


def edited(turn):
    """Return the unscaled attention as a learner has it after some edits that did not help."""
    names = {"softmax": softmax}
    exec(
        f"def attention(query, key, value):\n    kept = {turn}\n"
        "    return softmax(query @ key.T) @ value",
        names,
    )
    return names["attention"]


def test_a_right_answer_passes_and_hears_of_hidden_tests(exercise):
    report = exercise.check("q4", namespace={"attention": right})
    assert report.passed
    assert str(report).splitlines()[0] == "q4 Attention: 2 of 2 points of the public tests"
    assert "Hidden tests, worth 2, run when it is graded." in " ".join(str(report).split())


def test_a_known_mistake_is_named_with_one_hint_at_a_time(exercise):
    said = [str(exercise.check("q4", namespace={"attention": edited(turn)})) for turn in range(5)]
    assert "Known mistake: your output equals “Scaling forgotten”." in said[0]
    assert "largest error 0.605 at [2, 1]: wanted -0.348189" in said[0]
    assert [text.count("Hint:") for text in said] == [1, 2, 3, 4, 4]
    assert "Change your answer and check again for another hint" in said[0]
    assert "(3 left)" in said[0]
    assert "another hint" not in said[3]


def test_unchanged_code_opens_no_hint(exercise):
    said = [str(exercise.check("q4", namespace={"attention": unscaled})) for _ in range(4)]
    assert [text.count("Hint:") for text in said] == [1, 1, 1, 1]


def test_a_changed_helper_opens_the_next_hint(exercise):
    names = notebook(HERE + "return helper(query @ key.T) @ value") | {"helper": softmax}
    names["attention"].__globals__["helper"] = softmax
    first = str(exercise.check("q4", namespace=names))
    names["helper"] = lambda scores: softmax(1.0 * scores)
    second = str(exercise.check("q4", namespace=names))
    assert (first.count("Hint:"), second.count("Hint:")) == (1, 2)


def test_a_mistake_in_two_tests_is_told_once(exercise):
    def whole(scores):
        return np.exp(scores) / np.exp(scores).sum()

    said = str(exercise.check("q2", namespace={"softmax": whole}))
    assert said.count("✗") == 2
    assert said.count("Known mistake") == said.count("Hint:") == 1


def test_a_new_mistake_gets_the_tests_own_hint(exercise):
    report = exercise.check("q4", namespace={"attention": lambda q, k, v: right(q, k, v) + 0.01})
    assert "Known mistake" not in str(report)
    assert "from the inside out" in str(report)


def test_hints_start_again_after_a_pass(exercise):
    exercise.check("q4", namespace={"attention": unscaled})
    exercise.check("q4", namespace={"attention": right})
    assert str(exercise.check("q4", namespace={"attention": unscaled})).count("Hint:") == 1


def test_a_blank_answer_is_told_to_begin(exercise):
    def attention(query, key, value):
        raise NotImplementedError

    report = exercise.check("q4", namespace={"attention": attention})
    assert not report.passed
    assert "Nothing is written here yet" in str(report)
    assert "Hint" not in str(report)


def notebook(source):
    """Return the names that a notebook's code leaves."""
    names = {"np": np}
    exec(source, names)
    return names


UNWRITTEN = "def softmax(scores):\n    raise NotImplementedError('about 3 lines')\n"
HERE = "def attention(query, key, value):\n    "


def test_an_unwritten_helper_is_named_and_not_taken_for_the_answer(exercise):
    names = notebook(UNWRITTEN + HERE + "return softmax(query @ key.T) @ value")
    said = " ".join(str(exercise.check("q4", namespace=names)).split())
    assert "softmax is not written yet, and attention needs it" in said
    assert "Nothing is written here yet" not in said


def test_a_forgotten_raise_below_the_code_is_said(exercise):
    names = notebook(HERE + "scores = query @ key.T\n    raise NotImplementedError")
    said = " ".join(str(exercise.check("q4", namespace=names)).split())
    assert "NotImplementedError still stands in attention, below your code" in said
    assert "Nothing is written here yet" not in said


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_an_endless_loop_is_stopped_and_named(exercise, monkeypatch, handler):
    """Also in a program that was started in the background, which ignores interrupts."""
    from attncourse.grading import check

    before = signal.signal(signal.SIGINT, handler)
    monkeypatch.setattr(check, "SLACK", -9.5)
    names = notebook(
        HERE + "while True:\n        try:\n            np.ones(3).sum()\n"
        "        except KeyboardInterrupt:\n            np.zeros(3).sum()\n            raise"
    )
    try:
        said = " ".join(str(exercise.check("q4", namespace=names)).split())
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert "stopped after 0.5 s: does a loop never end?" in said


@pytest.mark.parametrize(
    "source",
    [
        "from attncourse.reference import attention",
        "import attncourse.reference as helper\n"
        + HERE
        + "return helper.attention(query, key, value)",
        HERE + "from attncourse.reference import attention as given\n"
        "    return given(query, key, value)",
        "from attncourse.reference import attention as given\n"
        "def helper(*args):\n    return given(*args)\n" + HERE + "return helper(query, key, value)",
    ],
    ids=["itself", "module", "inside", "through-a-helper"],
)
def test_an_answer_that_will_not_be_there_when_graded_is_said(exercise, source):
    report = exercise.check("q4", namespace=notebook(source))
    assert not report.passed
    assert report.points == 0
    assert "attncourse.reference, which is not there when your work is graded" in " ".join(
        str(report).split()
    )


def test_the_courses_tools_beside_the_answer_do_no_harm(exercise):
    names = {"attention": right, **notebook("from attncourse.reference import attention as other")}
    names.pop("attention", None)
    assert exercise.check("q4", namespace={**names, "attention": right}).passed


def larger_lse(out1, lse1, out2, lse2):
    lse = np.maximum(lse1, lse2)
    share = np.exp(lse1 - np.logaddexp(lse1, lse2))[:, None]
    return share * out1 + (1 - share) * out2, lse


def test_a_mistake_is_named_only_if_it_is_that_one_on_other_numbers_too(monkeypatch):
    """With one lse of 0 the larger of two is their sum: only other numbers tell them apart."""
    from attncourse.grading import mistakes, plugin
    from attncourse.grading.local import LocalTransport
    from attncourse.grading.student import Asked

    spec = Exercise("16").spec
    args = (np.ones((1, 2)), np.zeros(1), np.zeros((1, 2)), np.array([1.0]))
    given = [part.copy() for part in larger_lse(*args)]
    trace = [Asked({"do": "call", "name": "merge", "args": args, "kwargs": {}}, given, False)]
    row = plugin.TestResult("t", "q3", 1, "failed", "", [], trace=trace)
    known = [m for m in mistakes.read_answers(spec, "wrong") if m.file != "q3_larger_lse"]
    monkeypatch.setattr(mistakes, "read_answers", lambda *_: known)
    assert [m.file for m in mistakes.nearest(spec, [row]).values()] == ["q3_logs_added"]
    learner = LocalTransport({"merge": larger_lse})
    assert mistakes.nearest(spec, [row], learner) == {}


@pytest.mark.parametrize("number", ["03", "04", "07", "16"])
def test_a_known_mistake_is_still_that_one_on_other_numbers(number):
    """The second look must not take the name from those who made the mistake."""
    from attncourse.grading.mistakes import read_answers

    spec = Exercise(number).spec
    for mistake in read_answers(spec, "wrong")[::3]:
        names = mistake.namespace()
        with np.errstate(all="ignore"):
            report = Exercise(number).check(mistake.question, namespace=names)
        if not report.passed and mistake.file not in ("q4_builds_the_square", "q4_zeros_when_long"):
            assert mistake.name in str(report).replace("\n      ", " "), mistake.file


def test_a_missing_function_is_named(exercise):
    assert "you have not defined attention" in str(exercise.check("q4", namespace={}))


def test_an_error_says_where(exercise):
    def attention(query, key, value):
        return query @ key @ value

    said = str(exercise.check("q4", namespace={"attention": attention}))
    assert "ValueError: matmul" in said
    assert "in attention, line" in said
    assert "return query @ key @ value" in " ".join(said.split())


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "nothing came back: is a return missing?"),
        ("text", "wanted an array of numbers, came a str"),
        ([[1.0], [1.0, 2.0]], "the rows that came have different lengths"),
        (np.zeros((5, 4)), "wanted the shape (4, 3), came (5, 4)"),
        ((np.zeros((4, 3)), np.zeros((4, 5))), "came 2 values, of the shapes (4, 3), (4, 5)"),
        ((np.zeros((4, 3)), np.zeros((4, 3))), "came 2 arrays, wanted the first one alone"),
        (np.full((4, 3), np.nan), "nan at [0, 0], wanted finite numbers"),
        (object(), "cannot be read"),
    ],
    ids=["none", "text", "ragged", "shape", "two", "two-alike", "nan", "object"],
)
def test_odd_results_are_the_learners_and_are_explained(exercise, value, said):
    report = exercise.check("q4", namespace={"attention": lambda query, key, value_: value})
    assert said in " ".join(str(report).split())


def test_the_callers_names_are_found(exercise):
    globals()["attention"] = right
    try:
        assert exercise.check("q4").passed
    finally:
        del globals()["attention"]


def test_it_raises_where_it_is_asked_to(exercise, monkeypatch):
    with pytest.raises(CheckFailed, match="Scaling forgotten"):
        exercise.check("q4", namespace={"attention": unscaled}, raises=True)
    monkeypatch.setenv("ATTNCOURSE_CHECK_RAISES", "1")
    with pytest.raises(CheckFailed):
        exercise.check("q4", namespace={"attention": unscaled})
    assert exercise.check("q4", namespace={"attention": right}).passed


def test_a_learner_can_stop_a_check(exercise):
    def attention(query, key, value):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exercise.check("q4", namespace={"attention": attention})


def test_unknown_names_are_answered_with_the_known_ones(exercise):
    with pytest.raises(ExerciseError, match="no question 'q9'; it has q1, q2, q3, q4"):
        exercise.check("q9", namespace={})
    with pytest.raises(ExerciseError, match=r"known: .*03_query_key_value"):
        Exercise("99_nothing")


def test_the_report_is_html_with_learner_text_escaped(exercise):
    def attention(query, key, value):
        raise ValueError("<script>alert(1)</script>")

    page = exercise.check("q4", namespace={"attention": attention})._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert 'role="status"' in page


def test_no_file_is_left_beside_the_notebook(exercise, tmp_path, monkeypatch):
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    before = {f for f in (ROOT / "exercises" / ID).rglob("*") if "__pycache__" not in f.parts}
    exercise.check("q4", namespace={"attention": unscaled})
    after = set((ROOT / "exercises" / ID).rglob("*"))
    assert list(place.iterdir()) == []
    assert {f for f in after if "__pycache__" not in f.parts} == before
    assert not any("tests" in f.parts for f in after - before)


def test_learner_code_cannot_change_a_tests_inputs(exercise):
    def attention(query, key, value):
        query[:] = 0.0
        key[:] = 0.0
        return softmax(query @ key.T) @ value

    assert not exercise.check("q4", namespace={"attention": attention}).passed


def test_progress_keeps_the_best_result_and_counts_questions(exercise, progress):
    exercise.check("q4", namespace={"attention": right})
    exercise.check("q4", namespace={"attention": unscaled})
    assert json.loads(progress.read_text()) == {ID: {"q4": {"points": "2", "max": "2"}}}
    rows = {name: (int(done), int(total)) for name, _, done, total in Progress.read().rows}
    assert rows[ID] == (1, 4)
    assert len(rows) > 1, "every exercise has a row, begun or not"
    assert f"{ID}        █████··············· 1 of 4" in str(exercise.progress())
    assert "<progress" in exercise.progress()._repr_html_()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"03_query_key_value": {"q4": 7}}', '"x"'])
def test_a_damaged_progress_file_disturbs_nobody(exercise, progress, text):
    progress.write_text(text)
    assert exercise.check("q4", namespace={"attention": right}).passed
    assert json.loads(progress.read_text())[ID]["q4"]["points"] == "2"


def test_progress_can_be_switched_off(exercise, monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNCOURSE_PROGRESS", "off")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    exercise.check("q4", namespace={"attention": right})
    assert not (tmp_path / "home").exists()


@pytest.mark.skipif(os.name == "nt", reason="needs a folder that cannot be written")
def test_progress_that_cannot_be_kept_disturbs_nobody(exercise, monkeypatch):
    monkeypatch.setenv("ATTNCOURSE_PROGRESS", "/dev/null/progress.json")
    assert exercise.check("q4", namespace={"attention": right}).passed


def test_a_check_takes_a_fraction_of_a_second(exercise):
    exercise.check("q4", namespace={"attention": unscaled})
    start = time.process_time()
    exercise.check("q4", namespace={"attention": unscaled})
    assert time.process_time() - start < 0.5


def test_the_books_example_is_what_the_check_says(exercise):
    page = (ROOT / "book" / "exercises.md").read_text(encoding="utf-8")
    example = page.split("```text\n")[1].split("\n```")[0]
    assert str(exercise.check("q4", namespace={"attention": unscaled})) == example


def lookup_at(place):
    return lambda query, keys, values: values[place]


def fixed_sharpness(query, keys, values, sharpness):
    return softmax(0.5 * (keys @ query)) @ values


def no_leak(before, after, changed):
    return []


@pytest.mark.parametrize(
    ("number", "question", "names"),
    [
        ("03", "q1", {"hard_lookup": lookup_at(0)}),
        ("03", "q1", {"hard_lookup": lookup_at(-1)}),
        ("03", "q3", {"soft_lookup": fixed_sharpness}),
        ("07", "q5", {"leaking_positions": no_leak}),
    ],
)
def test_a_constant_is_no_known_mistake(number, question, names):
    """One equal output may be chance: a mistake is named if it equals all outputs."""
    report = Exercise(number).check(question, namespace=names)
    assert not report.passed
    assert "Known mistake" not in str(report)


def test_a_question_gets_one_mistake_at_most():
    def masked_attention(query, key, value, allowed):
        scores = allowed * (query @ key.T) / np.sqrt(query.shape[1])
        if not allowed.any(axis=1).all():
            scores = np.where(allowed, scores, -np.inf)
        with np.errstate(invalid="ignore"):
            return softmax(scores) @ value

    said = str(Exercise("07").check("q4", namespace={"masked_attention": masked_attention}))
    assert said.count("✗") == 2
    assert "Known mistake" not in said


def test_what_np_where_gives_is_no_list_of_positions():
    def leaking_positions(before, after, changed):
        return np.where(np.abs(after - before).max(axis=1)[:changed] > 1e-9)

    report = Exercise("07").check("q5", namespace={"leaking_positions": leaking_positions})
    assert not report.passed
    assert "the positions that leak: wanted the shape (2,), came (1, 2)" in str(report)


def test_a_wrong_shape_is_said_as_shapes():
    wrong = {"softmax": lambda scores: softmax(scores).T}
    said = " ".join(str(Exercise("03").check("q2", namespace=wrong)).split())
    assert "the weights: wanted the shape (2, 3), came (3, 2)" in said
    assert "the shape of" not in said


def test_a_set_is_refused_without_the_checks_own_lines():
    said = str(Exercise("03").check("q2", namespace={"softmax": lambda scores: {1.0}}))
    assert "got a set" in said
    assert "_plain_array" not in said
    assert "raise TypeError" not in said
