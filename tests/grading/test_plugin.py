"""pytest as the engine: whose fault a failure is, and that a run leaves nothing behind."""

import os
import sys
from fractions import Fraction

import numpy as np
import pytest

from attncourse.grading.compare import close
from attncourse.grading.exercise import ExerciseError
from attncourse.grading.local import LocalTransport
from attncourse.grading.mistakes import same
from attncourse.grading.plugin import run
from attncourse.grading.points import exact

HEAD = "import numpy as np\nimport pytest\n"
MARK = '@pytest.mark.question("{q}")\n@pytest.mark.points({p})\n@pytest.mark.hint("one", "two")\n'


def write(folder, body, *, question="q1", points="1", name="test_some.py", mark=True):
    """Write a test file and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = MARK.format(q=question, p=points) if mark else ""
    (folder / name).write_text(f"{HEAD}\n{lines}def test_it(student, rng):\n    {body}\n")
    return folder


def one(folder, body, **names):
    """Run one test and return its result."""
    return run(write(folder, body), LocalTransport(names))[0]


def test_a_passed_test_carries_what_its_markers_say(tmp_path):
    folder = write(tmp_path, '"""Two is two."""; assert student.two() == 2', points='"0.1"')
    (row,) = run(folder, LocalTransport({"two": lambda: 2}))
    assert (row.outcome, row.question, row.title) == ("passed", "q1", "Two is two")
    assert exact(row.points) == Fraction(1, 10)
    assert row.hints == ["one", "two"]
    assert row.nodeid == "test_some.py::test_it"


@pytest.mark.parametrize(
    ("body", "outcome", "said"),
    [
        ("assert student.f() == 2, 'two is wanted'", "failed", "two is wanted"),
        ("student.absent()", "failed", "you have not defined absent"),
        ("student.f()['x']", "failed", "could not use what came: TypeError"),
        ("1 / 0", "error", "ZeroDivisionError"),
        ("unknown_name", "error", "NameError"),
        ("student.f(); unknown_name", "error", "NameError"),
        ("student.f(); import no_such_module", "error", "ModuleNotFoundError"),
        ("assert False, 'by itself'", "failed", "by itself"),
    ],
)
def test_whose_fault_a_failure_is(tmp_path, body, outcome, said):
    row = one(tmp_path, body, f=lambda: 1)
    assert row.outcome == outcome
    assert said in row.message


def test_an_unknown_fixture_is_the_tests_fault(tmp_path):
    (tmp_path / "test_some.py").write_text("def test_it(student, nothing):\n    student.f()\n")
    assert run(tmp_path, LocalTransport({}))[0].outcome == "error"


def test_a_transport_that_fails_is_nobodys_zero(tmp_path):
    class Broken(LocalTransport):
        def ask(self, request):
            if request["do"] == "measure":
                raise RuntimeError("cannot be measured")
            return super().ask(request)

    folder = write(tmp_path, "student.f(); student.measure('f')")
    (row,) = run(folder, Broken({"f": lambda: 1}))
    assert (row.outcome, "cannot be measured" in row.message) == ("error", True)


def test_a_test_that_asks_nothing_has_no_earlier_tests_trace(tmp_path):
    """Its own error would pass for the learner's otherwise."""
    text = "def test_a(student):\n    student.f()\n\n\ndef test_b():\n    1 / 0\n"
    (tmp_path / "test_some.py").write_text(text)
    rows = run(tmp_path, LocalTransport({"f": lambda: 1}))
    assert [row.outcome for row in rows] == ["passed", "error"]


def test_a_message_is_cut(tmp_path):
    assert len(one(tmp_path, "assert False, 'x' * 10_000").message) == 2000


def test_assertions_are_not_rewritten(tmp_path):
    """A rewritten assertion would print the values of a hidden test."""
    assert one(tmp_path, "secret = 41 + 1; assert student.f() == secret", f=int).message == ""


@pytest.mark.parametrize("text", ["import nothing_of_this_name\n", "def broken(:\n"])
def test_a_file_that_cannot_be_imported_is_an_error(tmp_path, text):
    (tmp_path / "test_some.py").write_text(text)
    with pytest.raises(ExerciseError, match="cannot be imported"):
        run(tmp_path, LocalTransport({}))


def test_a_folder_without_tests_is_an_error(tmp_path):
    with pytest.raises(ExerciseError, match="pytest found 0 tests"):
        run(tmp_path, LocalTransport({}))


def test_only_selected_questions_run(tmp_path):
    write(tmp_path, "pass", question="q1")
    write(tmp_path, "pass", question="q2", name="test_other.py")
    rows = run(tmp_path, LocalTransport({}), select={"q2"})
    assert [row.question for row in rows] == ["q2"]
    assert len(run(tmp_path, LocalTransport({}))) == 2


def test_the_seed_reaches_the_tests(tmp_path):
    folder = write(tmp_path, "assert False, repr(float(rng.normal()))")
    first, second, third = (
        run(folder, LocalTransport({}), seed=seed)[0].message for seed in (1, 1, 2)
    )
    assert first == second != third


def test_equal_file_names_of_two_exercises_do_not_mix(tmp_path):
    first = one(tmp_path / "a", "assert False, 'first'")
    second = one(tmp_path / "b", "assert False, 'second'")
    changed = one(tmp_path / "a", "assert False, 'changed'")
    assert [first.message, second.message, changed.message] == ["first", "second", "changed"]


def test_a_run_leaves_no_trace(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    modules, environment = set(sys.modules), dict(os.environ)
    finders, bytecode = list(sys.meta_path), sys.dont_write_bytecode
    one(tmp_path, "print('x'); student.f()", f=lambda: print("y"))
    assert dict(os.environ) == environment
    assert {name for name in set(sys.modules) - modules if "test" in name} == set()
    assert [file.name for file in tmp_path.iterdir()] == ["test_some.py"]
    assert capfd.readouterr() == ("", "")
    assert (list(sys.meta_path), sys.dont_write_bytecode) == (finders, bytecode)


def test_settings_and_conftest_of_the_folder_are_not_read(tmp_path):
    (tmp_path / "conftest.py").write_text("raise RuntimeError\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    assert one(tmp_path, "pass").outcome == "passed"


def test_parametrized_tests_are_told_apart(tmp_path):
    text = MARK.format(q="q1", p=1) + '@pytest.mark.parametrize("size", [1, 2])\n'
    text += "def test_it(student, size):\n    assert student.f() == size\n"
    (tmp_path / "test_some.py").write_text(HEAD + text)
    rows = run(tmp_path, LocalTransport({"f": lambda: 2}))
    assert [(row.nodeid[-3:], row.outcome) for row in rows] == [
        ("[1]", "failed"),
        ("[2]", "passed"),
    ]


class Counter:
    def __init__(self, start):
        self.total = start

    def add(self, number):
        self.total += number
        return (self.total,)


def test_objects_are_handles_with_methods(tmp_path):
    body = "c = student.new('Counter', 3); assert c.add(2) == [5] and c.get('total') == 5"
    assert one(tmp_path, body, Counter=Counter).outcome == "passed"
    assert (
        "Counter has no nothing"
        in one(tmp_path, "student.new('Counter', 1).nothing()", Counter=Counter).message
    )


def test_memory_is_measured(tmp_path):
    body = "value, peak = student.measure('f'); assert value == 1 and peak > 8e6"
    assert one(tmp_path, body, f=lambda: int(np.ones(1_000_000).max())).outcome == "passed"


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1.0, 1.0 + 1e-12, True),
        (1.0, 1.0 + 1e-6, False),
        (np.nan, np.nan, True),
        (np.array([np.inf, 1.0]), np.array([np.inf, 1.0]), True),
        (np.zeros(2), np.zeros(3), False),
        (True, 1.0, False),
        (np.array([True]), np.array([1.0]), False),
        ([1, [2.0]], [1, [2.0]], True),
        ([1], [1, 2], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"b": 1}, False),
        ("a", "a", True),
        (None, 0.0, False),
        (ValueError("x"), ValueError("x"), False),
    ],
)
def test_what_counts_as_the_same(left, right, equal):
    assert same(left, right) is equal


@pytest.mark.parametrize(
    ("came", "wanted", "said"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2)), "wanted the shape (3, 2), came (2, 3)"),
        ([0, 1], [False, True], "wanted True and False, came the dtype int64"),
        ([True, True], [True, False], "wanted False at [1], came True (1 of 2 numbers differ)"),
        (3.0, 4.0, "it: wanted 4, came 3"),
        ([np.inf], [-np.inf], "largest error inf at [0]: wanted -inf, came inf"),
        ([0, 1, 3], [0, 1], "it: wanted [0, 1], came [0, 1, 3]"),
        ([], [2], "it: wanted [2], came []"),
        (
            np.float32([1.1, 2.0]),
            [1.1, 2.0],
            "wanted 1.1000000000000001, came 1.1000000238418579 (1 of 2 numbers differ); it is "
            "float32, which holds about 7 digits: compute in float64",
        ),
    ],
)
def test_a_comparison_says_what_was_wanted_and_what_came(came, wanted, said):
    close(wanted, wanted, "it")
    with pytest.raises(AssertionError) as error:
        close(came, np.array(wanted), "it")
    assert str(error.value).startswith("it: ")
    assert said in str(error.value)
