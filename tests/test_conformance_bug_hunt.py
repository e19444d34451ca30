"""The suspects are wrong in the way the answers say, and the kernel behind them is right."""

import pytest
import torch

from attncourse import conformance
from attncourse.conformance import bug_hunt
from attncourse.conformance.bug_hunt import kernel

pytestmark = pytest.mark.ladder

CASES = {case.name: case for case in conformance.all_cases()}


def test_the_kernel_behind_the_suspects_passes_every_case():
    report = conformance.run(kernel.attention, "full").check()
    assert {"causal", "gqa", "grad", "lse"} <= report.features
    assert len(report.passed) > 150


@pytest.mark.parametrize("name", bug_hunt.NAMES)
def test_a_suspect_fails_the_case_that_describes_it_and_passes_most(name):
    report = conformance.run(bug_hunt.suspect(name))
    failed = {outcome.case.name for outcome in report.failed}
    assert bug_hunt.caught_by(name) in failed
    assert len(report.passed) > len(failed)
    assert all(outcome.what != "call" for outcome in report.failed), "a crash gives it away"
    assert report.name == f"bug_hunt:suspect_{name}"


def test_every_suspect_fails_differently():
    failures = set()
    for name in bug_hunt.NAMES:
        report = conformance.run(bug_hunt.suspect(name))
        failures.add(frozenset(outcome.case.name for outcome in report.failed))
    assert len(failures) == len(bug_hunt.NAMES) == 5


@pytest.mark.parametrize("name", bug_hunt.NAMES)
def test_the_answer_shows_the_changed_lines(name):
    first, *changed = bug_hunt.reveal(name).splitlines()
    assert max(map(len, [first, *changed])) <= 79, "the page cuts longer lines"
    assert first.startswith(f"{name}: ")
    assert any(line.startswith("+") for line in changed)
    assert len(changed) <= 3
    assert bug_hunt.caught_by(name) in CASES


def test_an_unknown_suspect_is_named():
    for function in (bug_hunt.suspect, bug_hunt.reveal, bug_hunt.caught_by):
        with pytest.raises(ValueError, match="no suspect is called 'F'; there are A, B"):
            function("F")


def test_heads_that_differ_are_refused_without_permission():
    q, k = torch.randn(1, 4, 3, 2), torch.randn(1, 2, 3, 2)
    with pytest.raises(ValueError, match="query has 4 heads, key has 2"):
        kernel.attention(q, k, k)
