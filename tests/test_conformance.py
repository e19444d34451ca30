"""The suite catches wrong functions, passes right ones, and says what it found."""

import argparse
import html
import sys

import numpy as np
import pytest
import torch
from mutants.catalogue import BASES, correct, features_of, library_of, mutants
from mutants.different import DIFFERENT

from attncourse import conformance, reference
from attncourse.conformance import _tolerance
from attncourse.conformance._modes import MODES
from attncourse.conformance._oracle import Size, expected, problem
from attncourse.conformance._plain import plain
from attncourse.rungs import FEATURES

pytestmark = pytest.mark.ladder

CASES = {case.name: case for case in conformance.all_cases()}
MUTANTS = mutants()


def textbook(query, key, value):
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    return weights / weights.sum(-1, keepdims=True) @ value


# The suite, tested.
@pytest.mark.parametrize("base", BASES)
def test_the_correct_functions_pass_every_case(base):
    fn = correct(base)
    report = conformance.run(
        fn, "full", features_of(base), library=library_of(base), strict=True
    ).check()
    assert len(report.passed) > 500


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_every_mutant_is_caught_by_the_case_it_names(mutant):
    case = CASES[mutant.caught_by]
    subject = conformance.subject_of(
        mutant.load(), features_of(mutant.base), library_of(mutant.base)
    )
    outcome = conformance.run_case(case, subject)
    assert outcome.status == "failed"
    assert outcome.what != "call", f"caught by a crash, not by a wrong answer: {outcome.came}"


def test_the_oracle_is_asked_each_question_once(monkeypatch):
    asked = []
    real = reference.attention

    def oracle(*arrays, **options):
        asked.append(options)
        return real(*arrays, **options)

    monkeypatch.setattr("attncourse.conformance._oracle.reference.attention", oracle)
    inputs = problem(conformance.subject_of("matmul"), Size(3, 4), seed=77001)
    mask = np.ones((3, 4), bool)
    for options in ({}, {"attn_mask": mask}, {"is_causal": True}, {}, {"attn_mask": mask.copy()}):
        out, lse = expected(inputs, {"return_lse": True, **options})
        wanted = real(*inputs, return_lse=True, **options)
        np.testing.assert_array_equal(out, wanted[0])
        np.testing.assert_array_equal(lse, wanted[1])
    assert len(asked) == 3
    mask[0, 0] = False
    assert not np.array_equal(expected(inputs, {"return_lse": True, "attn_mask": mask})[0], out)
    with pytest.raises(ValueError, match="read-only"):
        out += 1


def test_there_are_enough_mutants_and_no_two_alike():
    assert len(MUTANTS) >= 150
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({mutant.source() for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize(
    ("fn", "features"), DIFFERENT, ids=lambda arg: getattr(arg, "__name__", "")
)
def test_right_functions_pass_however_they_are_written(fn, features):
    report = conformance.run(fn, "full", features).check()
    assert len(report.passed) >= 60


@pytest.mark.parametrize("theme", ["exact", "order", "shapes", "metamorphic"])
def test_the_oracle_itself_is_held_to_fractions_and_laws(theme):
    features = set(FEATURES) - {"grad"} | {"scale"}
    conformance.run(reference.attention, "full", features, library="numpy", only=theme).check()


@pytest.mark.parametrize("mode", MODES)
def test_plain_torch_is_the_oracle_so_its_gradients_may_judge(mode):
    subject = conformance.subject_of("batched")
    heads = {"H": 4, "Hkv": 2} if "gqa" in MODES[mode].needs else {}
    inputs = problem(subject, Size(7, 9, 4, 3, **heads))
    options = MODES[mode].options(inputs)
    wanted, wanted_lse = reference.attention(*inputs, **{**options, "return_lse": True})
    out, lse = plain(map(torch.from_numpy, inputs), options)
    np.testing.assert_allclose(out.numpy(), wanted, atol=1e-13)
    np.testing.assert_allclose(lse.numpy(), wanted_lse, atol=1e-13)


def test_a_function_that_forgets_to_write_is_caught_whatever_memory_held():
    def forgetful(query, key, value):
        out = np.empty((*query.shape[:-1], value.shape[-1]), query.dtype)
        out[..., :-1, :] = textbook(query, key, value)[..., :-1, :]
        return out

    def forgetful_torch(query, key, value):
        out = query.new_empty(*query.shape[:-1], value.shape[-1])
        out[..., 1:, :] = torch.nn.functional.scaled_dot_product_attention(query, key, value)[
            ..., 1:, :
        ]
        return out

    for fn in (forgetful, forgetful_torch):
        report = conformance.run(fn, only="exact/log-of-integers")
        assert "nan" in report.failed[0].came
    assert not np.isnan(np.empty(3)).all()  # the poison is gone


def test_case_names_are_unique_and_say_what_must_hold():
    assert len(CASES) == len(conformance.all_cases()) > 250
    assert all(case.says and case.theme for case in CASES.values())
    assert {feature for case in CASES.values() for feature in case.needs} >= set(FEATURES)


# What a run is told, and finds out.
def test_features_are_found_by_argument_names_and_trial_calls():
    assert conformance.run(textbook, only="exact").features == {"batch", "half"}

    def one_head(q, k, v, is_causal=False, attn_mask=None):
        return textbook(q, k.T.T, v) if q.ndim == 2 else q

    found = conformance.run(one_head, only="exact/one-key").features
    assert found == {"half", "causal", "bool_mask", "float_mask"}

    sdpa = torch.nn.functional.scaled_dot_product_attention
    assert conformance.subject_of(lambda q, k, v: sdpa(q, k, v)).features == {
        "batch",
        "half",
        "grad",
    }
    assert conformance.subject_of(lambda q, k, v: sdpa(q, k, v)).library == "torch"


def test_a_function_that_wants_four_axes_gets_four_axes():
    def four_axes(query, key, value):
        batch, heads, _, _ = query.shape
        assert (batch, heads) == key.shape[:2]
        return textbook(query, key, value)

    report = conformance.run(four_axes)
    assert report.check().passed


def test_a_learners_function_of_three_arguments_passes_as_it_is():
    report = conformance.run(textbook)
    assert bool(report)
    assert "query, key, value only" in report.found_by
    assert {"exact", "shapes", "layouts", "values", "metamorphic"} <= {
        outcome.case.theme for outcome in report.passed
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": "deep"}, "level must be one of"),
        ({"features": ["casual"]}, r"no feature is called \['casual'\]"),
        ({"only": "exakt"}, "no case's name starts with 'exakt'"),
        ({"library": "jax"}, 'library must be "numpy" or "torch"'),
    ],
)
def test_bad_settings_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        conformance.run(textbook, **arguments)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="wanted a function or the name of a rung, got int"):
        conformance.run(3)
    with pytest.raises(ValueError, match="no rung is called 'fast'"):
        conformance.run("fast")


def test_a_warning_fails_only_a_strict_run():
    def loud(query, key, value):
        np.log(np.zeros(1))
        return textbook(query, key, value)

    assert conformance.run(loud, only="exact")
    report = conformance.run(loud, only="exact/one-key", strict=True)
    assert "divide by zero" in report.failed[0].came


# What a run says.
@pytest.mark.parametrize(
    ("result", "kind"), [(None, "NoneType"), ([[1.0]], "list"), ("out", "str")], ids=str
)
def test_a_result_that_is_no_array_is_named(result, kind):
    report = conformance.run(lambda query, key, value: result, only="exact")
    assert len(report.failed) > 2
    for outcome in report.failed:
        assert (outcome.what, outcome.wanted, outcome.came) == ("out", "ndarray", kind)


def test_a_failed_case_names_wanted_came_and_the_largest_error():
    def doubled(query, key, value):
        return 2 * textbook(query, key, value)

    report = conformance.run(doubled, only="exact/one-key")
    (outcome,) = report.failed
    assert outcome.error == 6.0
    assert outcome.allowed < 1e-12
    text, page = str(report), report._repr_html_()
    for part in (
        "exact/one-key",
        "[[ 6., -1.], [ 6., -1.]]",
        "[[12., -2.], [12., -2.]]",
        "6 (allowed 8.88e-14)",
    ):
        assert part in text
        assert html.escape(part) in page
    assert "<table>" in page
    with pytest.raises(AssertionError, match="FAILED exact/one-key"):
        report.check()


def test_a_wrong_gradient_is_named_by_its_input():
    from attncourse.conformance.bug_hunt import suspect

    name = "gradients/finite-differences-grouped"
    (outcome,) = conformance.run(suspect("E"), only=name).failed
    assert outcome.came == "another derivative by key"
    assert "differences" in outcome.wanted


def test_an_exception_is_a_failed_case_and_not_the_end_of_the_run():
    def broken(query, key, value):
        raise RuntimeError("no luck <today>")

    report = conformance.run(broken, only="exact")
    assert len(report.failed) > 3
    assert not report.passed
    assert "RuntimeError: no luck <today>" in str(report)
    assert "no luck &lt;today&gt;" in report._repr_html_()


class _Silent(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (SystemExit(0), "SystemExit: 0"),
        (ValueError("\ud800"), r"ValueError: \ud800"),
        (_Silent(), "_Silent, which cannot be printed"),
    ],
    ids=["exit", "surrogate", "silent"],
)
def test_a_function_that_tries_to_end_the_run_has_failed(problem, told):
    def leave(query, key, value):
        raise problem

    report = conformance.run(leave, only="exact")
    assert not report
    assert report.failed[0].came == told
    str(report).encode()


def test_complex_numbers_are_no_answer():
    def turned(query, key, value):
        return reference.attention(query, key, value) + 1j

    report = conformance.run(turned, only="exact")
    assert (report.failed[0].wanted, report.failed[0].came) == ("real numbers", "complex128")


def test_cases_left_out_are_counted_with_their_reason():
    report = conformance.run("loops", "full", only=("exact", "shapes"))
    assert report.left_out
    assert "cases need one of: alibi, batch" in str(report)
    assert "left out" in report._repr_html_()
    assert all(outcome.lacks or outcome.case.scores > 1000 for outcome in report.left_out)


def test_a_run_without_any_case_is_not_a_pass():
    report = conformance.run(textbook, only="gradients")
    assert not report
    assert "no case applies" in str(report)


def test_nan_and_infinity_must_stand_in_the_same_places():
    left = np.array([np.nan, np.inf, -np.inf, 1.0, np.nan, np.inf])
    right = np.array([np.nan, np.inf, np.inf, 1.5, 0.0, 0.0])
    np.testing.assert_array_equal(
        _tolerance.distance(left, right), [0, 0, np.inf, 0.5, np.inf, np.inf]
    )


def test_quick_notices_a_gradient_of_a_mask_that_is_averaged():
    class Averaged(torch.autograd.Function):
        @staticmethod
        def forward(ctx, mask, shape):
            ctx.times = int(np.prod(shape)) // max(mask.numel(), 1)
            return mask.expand(shape)

        @staticmethod
        def backward(ctx, grad):
            return grad.mean((0, 1)), None

    def attention(query, key, value, attn_mask=None):
        if attn_mask is not None and attn_mask.ndim == 2 and attn_mask.requires_grad:
            shape = (*query.shape[:-1], key.shape[-2])
            attn_mask = Averaged.apply(attn_mask.expand(shape[-2:]), shape)
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attn_mask
        )

    features = {"batch", "float_mask", "grad"}
    report = conformance.run(attention, features=features, only="gradients/mask")
    assert [outcome.what for outcome in report.failed] == ["gradient of attn_mask at [3, 37]"]


# What is known of a function, and executed.
def test_a_known_flaw_is_left_out_with_its_reason_and_must_be_there():
    subject = conformance.subject_of(lambda query, key, value: 2 * textbook(query, key, value))
    case = CASES["exact/one-key"]
    subject.flaws = {case.name: "everything is doubled"}
    outcome = conformance.run_case(case, subject)
    assert (outcome.status, outcome.flaw) == ("left out", "everything is doubled")

    mended = conformance.subject_of(textbook)
    mended.flaws = subject.flaws
    outcome = conformance.run_case(case, mended)
    assert outcome.status == "failed"
    assert "the failure that is declared: everything is doubled" in outcome.wanted


def test_a_report_names_known_flaws():
    report = conformance.run("sdpa", "full", only="floors/finfo-min")
    assert "floors/finfo-min-backward fails, as is known: " in str(report)
    assert report


def test_a_case_that_no_memory_holds_is_left_out():
    def squared(query, key, value):
        scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
        ratios = np.exp(scores[..., None, :] - scores[..., :, None]).sum(-1)
        return (1 / ratios) @ value

    report = conformance.run(squared, only="sizes/70007-keys")
    assert report.left_out
    assert not report.failed
    assert "larger than it is tested with" in str(report)


# The command line.
@pytest.fixture
def command(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "half_written.py").write_text("def f(:\n")
    (tmp_path / "homework_file.py").write_text(
        "import numpy as np\n"
        "def good(q, k, v):\n"
        "    s = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5\n"
        "    w = np.exp(s - s.max(-1, keepdims=True, initial=-np.inf))\n"
        "    return w / w.sum(-1, keepdims=True) @ v\n"
        "def bad(q, k, v):\n"
        "    return good(q, k, v) + 1e-3\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    parser = argparse.ArgumentParser()
    conformance.add_command(parser.add_subparsers(required=True))

    def run(*arguments):
        options = parser.parse_args(["conformance", *arguments])
        return options.run(options)

    yield run
    sys.modules.pop("homework_file", None)


def test_the_command_says_whether_a_function_passed(command, capsys, tmp_path):
    assert command("homework_file:good") == 0
    assert "all cases passed" in capsys.readouterr().out
    assert command("homework_file:bad", "--only", "exact", "--html", "page.html") == 1
    assert "FAILED exact/one-key" in capsys.readouterr().out
    assert "failed case" in (tmp_path / "page.html").read_text()
    assert command("matmul", "--only", "exact/causal") == 0
    assert "declared in LADDER" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_module:f"], "cannot import 'no_such_module': No module named"),
        (["homework_file.py:good"], "as import spells it, got the module 'homework_file.py'"),
        ([":good"], "got the module ''"),
        (["half_written:f"], "cannot import 'half_written': SyntaxError: "),
        (["homework_file:none"], "module 'homework_file' has no function 'none'"),
        (["homework_file:good", "--features", "casual"], "no feature is called"),
        (["steps"], "no rung is called 'steps'"),
    ],
)
def test_the_command_says_what_it_could_not_run(command, capsys, arguments, message):
    assert command(*arguments) == 2
    assert message in capsys.readouterr().err
