"""The suites for decode functions and caches catch wrong ones, pass right ones, and say why."""

import argparse
import sys

import numpy as np
import pytest
from mutants.catalogue import correct, decoding_features, decoding_mutants
from mutants.different_caches import CACHES, STEPS

from attncourse import conformance
from attncourse.conformance.decoding._container import cache_subject
from attncourse.conformance.decoding._infer import step_subject
from attncourse.conformance.decoding._step import FEATURES

CASES = {case.name: case for case in (*conformance.step_cases(), *conformance.cache_cases())}
MUTANTS = decoding_mutants()


def newest_only(query, key, value):
    return value[:, :, -1:]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_every_mutant_is_caught_by_the_case_it_names(mutant):
    wrong = mutant.load()
    if mutant.base == "caches":
        subject = cache_subject(wrong)
    else:
        subject = step_subject(wrong, decoding_features(mutant.of), "numpy")
    outcome = conformance.run_case(CASES[mutant.caught_by], subject)
    assert outcome.status == "failed"
    assert outcome.what != "call", f"caught by a crash, not by a wrong answer: {outcome.came}"


def test_no_two_mutants_are_alike():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 50
    assert len({(mutant.of, mutant.source()) for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("of", ["decode", "paged_decode"])
def test_the_correct_decode_passes_every_case(of):
    fn, features = correct("steps", of), decoding_features(of)
    report = conformance.run_decode(fn, "full", features, library="numpy", strict=True).check()
    assert len(report.passed) > 70


@pytest.mark.parametrize("of", ["Cache", "Pool"])
def test_the_correct_caches_pass_every_case(of):
    assert len(conformance.run_cache(correct("caches", of), "full").check().passed) >= 12


@pytest.mark.parametrize("name", ["decode", "paged_decode"])
def test_our_own_decode_passes_and_has_every_feature(name):
    report = conformance.run_decode(name, "full", strict=True).check()
    lacking = {"paged"} if name == "decode" else set()
    assert report.features == {*FEATURES, "batch"} - lacking


@pytest.mark.parametrize("name", ["KVCache", "PagedKVCache"])
def test_our_own_caches_pass(name):
    assert not conformance.run_cache(name, "full").check().left_out


@pytest.mark.parametrize("fn", STEPS, ids=lambda fn: fn.__name__)
def test_right_decode_functions_pass_however_they_are_written(fn):
    assert len(conformance.run_decode(fn, "full").check().passed) > 30


@pytest.mark.parametrize("make", CACHES, ids=lambda make: make.__name__)
def test_right_caches_pass_however_they_are_written(make):
    assert len(conformance.run_cache(make, "full").check().passed) >= 9


def test_case_names_are_unique_and_say_what_must_hold():
    assert len(CASES) == len(conformance.step_cases()) + len(conformance.cache_cases()) > 100
    assert all(case.says for case in CASES.values())
    needed = {feature for case in conformance.step_cases() for feature in case.needs}
    assert needed == FEATURES.keys()


# What a run is told, and finds out.
def test_features_are_found_by_names_and_by_trial():
    assert conformance.run_decode(newest_only, only="step/one-key").features == {"batch", "half"}
    found = step_subject(STEPS[2])
    assert {"several", "gqa", "window", "lse"} <= found.features
    assert "several" not in step_subject(STEPS[0]).features, "it hides nothing from early queries"
    assert step_subject(STEPS[3]).features >= {"paged", "lengths"}


def test_a_feature_that_is_claimed_is_tested():
    report = conformance.run_decode(STEPS[0], features=["several"], library="torch")
    assert "step/several-queries" in [outcome.case.name for outcome in report.failed]


@pytest.mark.parametrize(
    ("run", "arguments", "error", "message"),
    [
        (conformance.run_decode, {"fn": 3}, TypeError, "wanted a decode function, got int"),
        (conformance.run_decode, {"fn": "recall"}, ValueError, "the package has no 'recall'"),
        (
            conformance.run_decode,
            {"fn": newest_only, "features": ["window_size"]},
            ValueError,
            r"no feature is called \['window_size'\]",
        ),
        (
            conformance.run_decode,
            {"fn": newest_only, "library": "jax"},
            ValueError,
            'library must be "numpy" or "torch"',
        ),
        (conformance.run_decode, {"fn": newest_only, "level": "deep"}, ValueError, "level must be"),
        (conformance.run_decode, {"fn": newest_only, "only": "pages"}, ValueError, "starts with"),
        (conformance.run_cache, {"make": 3}, TypeError, "wanted a class or a function"),
        (conformance.run_cache, {"make": dict}, TypeError, "makes no cache that two tokens"),
    ],
)
def test_bad_settings_are_named(run, arguments, error, message):
    with pytest.raises(error, match=message):
        run(**arguments)


def test_a_failed_case_says_what_was_wanted_and_came():
    report = conformance.run_decode(newest_only)
    failed = {outcome.case.name: outcome for outcome in report.failed}
    outcome = failed["step/log-of-integers"]
    assert (outcome.what, outcome.came) == ("out at [0, 0, 0, 1]", "[[[[1., 7.]]], [[[1., 7.]]]]")
    assert "FAILED step/log-of-integers" in str(report)
    assert "one of: " in str(report)


def test_a_cache_that_shows_nothing_is_told_what_is_wanted():
    class Silent:
        def append(self, key, value):
            pass

    report = conformance.run_cache(Silent)
    assert not report
    assert "(key, value) from append" in report.failed[0].wanted


def test_memory_that_was_never_written_is_poisoned():
    class Unwritten:
        def __init__(self, batch_size, num_kv_heads, head_dim):
            self.arrays = [np.empty((batch_size, num_kv_heads, 300, head_dim)) for _ in range(2)]
            self.filled = 0

        def append(self, key, value):
            self.filled += key.shape[2]
            return tuple(array[:, :, : self.filled] for array in self.arrays)

    report = conformance.run_cache(Unwritten, only="cache/one-token-at-a-time")
    assert "nan" in report.failed[0].came


# The command line.
def test_the_command_takes_decode_functions_and_caches(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_cache_file.py").write_text(
        "import numpy as np\n"
        "def newest(query, key, value):\n"
        "    return value[:, :, -1:]\n"
        "class Cache:\n"
        "    held = None\n"
        "    def append(self, key, value):\n"
        "        old = self.held or (key[:, :, :0], value[:, :, :0])\n"
        "        self.held = tuple(np.concatenate(p, 2) for p in zip(old, (key, value)))\n"
        "        return self.held\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    parser = argparse.ArgumentParser()
    conformance.add_command(parser.add_subparsers(required=True))

    def command(*arguments):
        options = parser.parse_args(["conformance", *arguments])
        return options.run(options)

    assert command("my_cache_file:newest", "--as", "decode") == 1
    assert "FAILED step/log-of-integers" in capsys.readouterr().out
    assert command("my_cache_file:Cache", "--as", "cache", "--level", "full") == 0
    assert command("decode", "--as", "decode", "--only", "step/one-key") == 0
    assert command("matmul", "--as", "cache") == 2
    assert "the package has no 'matmul'" in capsys.readouterr().err
    sys.modules.pop("my_cache_file", None)
