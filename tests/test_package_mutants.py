"""The package with one text changed: the suite's named case must fail, and passes unchanged."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest
from mutants import package

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="each change runs in a fork"),
]
CHANGES = package.changes()


@pytest.fixture(scope="module")
def found():
    """What became of every change: one process that forks."""
    done = subprocess.run(
        [sys.executable, package.__file__],
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_the_change_is_caught_by_the_case_it_names(change, found):
    failed = found[change.name]
    assert isinstance(failed, list), failed
    assert change.caught_by + package.CRASHED * change.crash in failed  # a longer name may too


RUNGS = sorted({change.rung for change in CHANGES})  # one of them is "", for tests


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung or "tests")
def test_the_unchanged_package_passes_the_same_cases(rung, found):
    assert found[f"nothing, {rung}"] == []


def test_there_are_enough_changes_and_no_two_alike():
    assert len({(change.module, change.find, change.become) for change in CHANGES}) == len(CHANGES)
    assert len({change.name for change in CHANGES}) == len(CHANGES)
    assert len(CHANGES) >= 40
    modules = Counter(change.module.split(".")[1] for change in CHANGES)
    assert set(modules) == {"call", "masks", "softmax", "rungs"}


def test_a_change_of_nothing_or_of_a_text_that_is_not_there_is_refused():
    for find, become in (("seen = gap >= 0", "seen = gap >= 0"), ("no such text", "x")):
        change = package.Change("idle", "attncourse.masks", "batched", "exact", find, become)
        with pytest.raises(ValueError, match="expected 1"):
            change.source()


@pytest.mark.parametrize(
    ("rung", "only"),
    [("matmul", "exact/causal"), ("", "test_masks.py::test_masks_combine_with_and")],
    ids=["case", "test"],
)
def test_a_change_that_nothing_notices_is_told(rung, only):
    only_words = package.Change(
        "only words",
        "attncourse.masks",
        rung,
        only,
        "Pin query 0 to key 0",
        "Pin the first query to the first key",
    )
    code = (
        "import sys; sys.path[:0] = sys.argv[1:3]\n"
        "import torch; from mutants import package\n"
        f"print(package.in_a_fork(package.{only_words!r}, {rung!r}, [{only!r}], 'full'))"
    )
    roots = [str(package.HERE.parent), str(package.ROOT)]
    done = subprocess.run(
        [sys.executable, "-c", code, *roots], capture_output=True, encoding="utf-8", timeout=120
    )
    assert done.stdout.strip() == "[]", done.stderr[-2000:]
