"""Every rung through the suite; every declared yes is executed, every declared no refuses."""

import csv
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tile_subjects
import torch

from attncourse import attention, conformance
from attncourse.conformance import _table
from attncourse.conformance._run import report_on
from attncourse.rungs import FEATURES, LADDER, by_name

pytestmark = pytest.mark.ladder

TABLE = Path(__file__).parent.parent / "book" / "tables" / "capabilities.csv"
CASES = conformance.all_cases()
SUBJECTS = {rung.name: conformance.subject_of(rung, strict=True) for rung in LADDER}


def applies(rung, case):
    subject = SUBJECTS[rung.name]
    return not case.missing(subject) and not case.too_large(subject)


def needs_package(rung):
    missing = conformance.missing_package(rung.name)
    if missing:
        pytest.skip(f"{rung.name} needs {missing}, which the capability table says")


def named(pairs):
    """Name each pair of a rung and something; slow rungs get the mark of slow tests."""
    return [
        pytest.param(
            rung,
            other,
            id=f"{rung.name}-{getattr(other, 'name', other)}",
            marks=pytest.mark.slow if conformance.limits_of(rung.name).slow else (),
        )
        for rung, other in pairs
    ]


@pytest.mark.parametrize(
    ("rung", "case"),
    named((rung, case) for rung in LADDER for case in CASES if applies(rung, case)),
)
def test_rung_passes(rung, case):
    needs_package(rung)
    outcome = conformance.run_case(case, SUBJECTS[rung.name])
    details = f"{outcome.what}: wanted {outcome.wanted}, came {outcome.came}"
    known = outcome.flaw and case.name in conformance.flaws_of(rung.name)
    assert outcome.status == "passed" or known, f"{case.says}; {details}; {outcome.size_of_error()}"


@pytest.mark.parametrize("theme", tile_subjects.THEMES)
@pytest.mark.parametrize("name", tile_subjects.SUBJECTS)
def test_a_rung_that_is_cut_small_passes(name, theme):
    report = report_on(tile_subjects.SUBJECTS[name], CASES, "full", f"{theme}/").check()
    assert report.passed


@pytest.mark.parametrize(
    ("rung", "feature"),
    named(
        (rung, feature) for rung in LADDER for feature in FEATURES if feature not in rung.features
    ),
)
def test_what_a_rung_lacks_it_refuses_by_name(rung, feature):
    assert _table.refuses(rung, feature)


@pytest.mark.parametrize(
    ("rung", "feature"),
    named((rung, feature) for rung in LADDER for feature in sorted(rung.features)),
)
def test_what_a_rung_claims_has_cases_that_ran(rung, feature):
    needs_package(rung)
    ran = [case for case in CASES if applies(rung, case) and feature in case.needs]
    assert len(ran) >= 3
    _table.ask(rung, feature)


@pytest.mark.parametrize("rung", LADDER, ids=lambda rung: rung.name)
def test_only_what_the_table_says_is_left_out(rung):
    subject = SUBJECTS[rung.name]
    limits = conformance.limits_of(rung.name)
    for case in CASES:
        if applies(rung, case):
            continue
        lacking = set(case.missing(subject)) - {"torch", "grad_twice", "float64"}
        large = limits.max_scores is not None and case.scores > limits.max_scores
        assert lacking <= set(FEATURES) - rung.features
        outside = {"grad_twice"} | ({"float64"} if "float64" not in limits.dtypes else set())
        assert lacking or large or outside & case.needs, case.name
    assert sum(applies(rung, case) for case in CASES) >= 125


def test_known_flaws_are_flaws_of_cases_that_there_are():
    for rung in LADDER:
        assert conformance.flaws_of(rung.name).keys() <= {case.name for case in CASES}


def test_the_table_in_the_book_is_what_execution_gives():
    with TABLE.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header[1:] == [rung.name for rung in LADDER]
    assert [row[0] for row in rows][1 : 1 + len(FEATURES)] == list(FEATURES.values())
    for column, rung in enumerate(LADDER, start=1):
        if conformance.missing_package(rung.name):
            continue
        committed = dict(zip(("library", *FEATURES), (row[column] for row in rows), strict=False))
        declared = {name: "yes" if name in rung.features else "no" for name in FEATURES}
        assert committed == {"library": _table.library(rung), **declared}, rung.name


@pytest.mark.parametrize("name", ["loops", "matmul", "sdpa"])
def test_the_table_is_made_by_execution(name):
    rung = by_name(name)
    found = _table.capabilities(rung)
    assert {name for name in FEATURES if found[name] == "yes"} == rung.features


def test_a_false_yes_and_a_false_no_make_no_table(monkeypatch):
    loops = by_name("loops")
    boasting = type(loops)("loops", loops.function, "numpy", loops.features | {"softcap"})
    with pytest.raises(AssertionError, match="loops declares softcap"):
        _table.capabilities(boasting, conformance.run(loops))
    monkeypatch.setattr(_table, "attention", lambda *args, **kwargs: 0)
    shy = type(loops)("loops", loops.function, "numpy", loops.features - {"causal"})
    with pytest.raises(AssertionError, match="loops declares no batch, but answered"):
        _table.capabilities(shy, conformance.run(loops))


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_auto_has_every_feature(library):
    features = set(FEATURES) | {"scale", "half"}
    features -= {"grad"} if library == "numpy" else set()
    conformance.run(attention, "quick", features, library=library, strict=True).check()


@pytest.mark.parametrize("name", ["batched", "sdpa"])
def test_a_torch_rung_takes_arrays_too(name):
    rung = by_name(name)
    features = (rung.features - {"grad"}) | {"scale", "half"}
    fn = partial(attention, rung=name)
    conformance.run(fn, "full", features, library="numpy", strict=True).check()


@pytest.mark.parametrize("name", ["loops", "matmul"])
def test_a_numpy_rung_takes_tensors_without_gradients(name):
    rung = by_name(name)
    fn = partial(attention, rung=name)
    features = rung.features | {"scale", "half"}
    themes = ("exact", "order", "values", "precision", "metamorphic")
    conformance.run(fn, "full", features, library="torch", only=themes).check()


def test_rungs_agree_on_dropout_to_the_last_bit_of_the_mask():
    rng = np.random.default_rng(0)
    query, key = rng.standard_normal((2, 2, 3, 20, 8))
    value = np.broadcast_to(np.eye(20), (2, 3, 20, 20))
    masks = {}
    for rung in LADDER:
        if "dropout_seed" in rung.features and not conformance.missing_package(rung.name):
            arrays = [query, key, value]
            if rung.library == "torch":
                arrays = [torch.tensor(array) for array in arrays]
            out = attention(*arrays, dropout_p=0.5, dropout_seed=77, rung=rung.name)
            masks[rung.name] = np.asarray(out) == 0
    assert len(masks) >= 2
    first = next(iter(masks.values()))
    for name, mask in masks.items():
        np.testing.assert_array_equal(mask, first, err_msg=name)
