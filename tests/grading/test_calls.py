"""A call means the same wherever it is made."""

import numpy as np
import pytest

from attncourse.grading.inside.calls import Calls, failure
from attncourse.grading.inside.wire import StudentError


class Cache:
    def __init__(self, size):
        self.size, self.kept = size, []

    def append(self, value):
        self.kept.append(value)
        return len(self.kept)


def spoil(array):
    array[:] = 0
    return array


def fail():
    raise ValueError("no <b>good</b>")


NAMES = {"double": lambda x: 2 * x, "Cache": Cache, "spoil": spoil, "fail": fail, "big": lambda: 1j}


@pytest.fixture
def calls():
    return Calls(NAMES)


def test_a_function_is_called(calls):
    np.testing.assert_array_equal(calls.call("double", [np.arange(3)]), [0, 2, 4])


def test_an_object_stays_behind_its_number(calls):
    first, second = calls.new("Cache", [3]), calls.new("Cache", [], {"size": 4})
    assert calls.method(first, "append", [1.0]) == 1
    assert calls.method(first, "append", [1.0]) == 2
    assert calls.method(second, "append", [1.0]) == 1
    assert calls.attribute(second, "size") == 4


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda calls: calls.call("absent"), "you have not defined absent"),
        (lambda calls: calls.call("fail"), "ValueError: no <b>good</b>"),
        (lambda calls: calls.call("big"), "the result cannot be read: TypeError: got a complex"),
        (lambda calls: calls.method(calls.new("Cache", [1]), "pop"), "Cache has no pop"),
        (lambda calls: calls.call("double"), "TypeError: .*missing 1 required"),
    ],
)
def test_trouble_is_text(calls, ask, text):
    with pytest.raises(StudentError, match=text):
        ask(calls)


def test_learner_code_cannot_change_a_tests_array(calls):
    mine = np.ones(3)
    calls.call("spoil", [mine])
    np.testing.assert_array_equal(mine, 1.0)


def test_a_message_is_cut_and_a_bad_one_replaced():
    class Bad(Exception):
        def __str__(self):
            raise SystemExit

    assert len(str(failure(ValueError("x" * 10_000)))) < 1000
    assert str(failure(Bad())) == "Bad: (its message cannot be printed)"


def test_gradients_of_a_torch_function():
    torch = pytest.importorskip("torch")

    def weighted(query, key, unused):
        assert isinstance(query, torch.Tensor)
        return query * key

    calls = Calls({"weighted": weighted}, {"weighted": "torch"})
    arrays = {"query": np.array([1.0, 2.0]), "key": np.array([3.0, 4.0]), "unused": np.ones(1)}
    grads = calls.grad("weighted", ["query", "unused"], arrays)
    np.testing.assert_array_equal(grads["query"], [3.0, 4.0])
    assert grads["unused"] is None
    grads = calls.grad("weighted", ["key"], arrays, cotangent=np.array([1.0, 10.0]))
    np.testing.assert_array_equal(grads["key"], [1.0, 20.0])


def test_memory_on_the_way_is_measured():
    calls = Calls({"wasteful": lambda n: float(np.ones(n).sum())})
    value, peak = calls.measure("wasteful", [1_000_000])
    assert value == 1_000_000
    assert 8_000_000 <= peak < 9_000_000


def test_arguments_that_a_call_changes_are_named():
    given = np.ones(3)
    calls = Calls({"spoil": spoil, "keep": lambda first, second: first + second})
    assert calls.changed("keep", [given], {"second": 1.0})[1] == []
    assert calls.changed("keep", [given], {"second": np.full(3, np.nan)})[1] == []
    assert calls.changed("spoil", [given])[1] == ["argument 1"]
    assert calls.changed("spoil", [], {"array": given})[1] == ["array"]
    assert given.tolist() == [1.0, 1.0, 1.0], "the test's own array is as it was"
