"""Values that break careless arithmetic: huge scores, tiny ones, NaN where nothing may look."""

from __future__ import annotations

import numpy as np

from attncourse.conformance._case import Theme
from attncourse.conformance._check import close, true
from attncourse.conformance._modes import Options, bool_mask
from attncourse.conformance._oracle import Problem, Size, hold_to_oracle, problem
from attncourse.conformance._subject import Subject
from attncourse.conformance._tolerance import EPS, rounding

THEME = Theme("values")


@THEME.case("scores-of-10000", "scores of ±10,000: exp alone would overflow")
def _huge(subject: Subject) -> None:
    hold_to_oracle(subject, problem(subject, Size(17, 33), gain=60.0))


@THEME.case(
    "causal-scores-of-10000",
    "scores of ±10,000 under a causal mask",
    needs={"causal"},
    level="full",
)
def _huge_causal(subject: Subject) -> None:
    hold_to_oracle(subject, problem(subject, Size(33, 33), gain=60.0), is_causal=True)


@THEME.case(
    "lse-of-10000", "the log-sum-exp of scores of ±10,000 is finite", needs={"lse"}, level="full"
)
def _huge_lse(subject: Subject) -> None:
    hold_to_oracle(subject, problem(subject, Size(17, 33), gain=60.0), return_lse=True)


def _equal_scores(subject: Subject, score: float, keys: int) -> Problem:
    """Make all scores equal: every output is the plain mean of the values seen."""
    lead = (2, 2) if subject.has("batch") else ()
    query = np.full((*lead, 3, 1), abs(score))
    value = problem(subject, Size(3, keys, 1, 4)).value
    return Problem(query, np.full((*lead, keys, 1), np.sign(score)), value)


def _close_up_to_rounding(
    subject: Subject, out: np.ndarray, wanted: np.ndarray, inputs: Problem
) -> None:
    """Leave room for weights that are taken as exp(score - lse), with an lse of -1e12."""
    close("out", out, wanted, rounding(subject.dtype("float64"), inputs, {})[0])


@THEME.case("all-scores-very-low", "every score is -1e5: exp alone gives 0 / 0")
def _very_low(subject: Subject) -> None:
    inputs = _equal_scores(subject, -1e5, 21)
    out = subject.call(*inputs).out
    wanted = np.broadcast_to(inputs.value.mean(-2, keepdims=True), out.shape)
    _close_up_to_rounding(subject, out, wanted, inputs)


@THEME.case(
    "lower-than-any-substitute-for-minus-infinity",
    "visible scores of -1e12 beat hidden keys: hiding means -inf, not -1e6 or -1e9",
    needs={"causal"},
)
def _below_substitutes(subject: Subject) -> None:
    inputs = _equal_scores(subject, -1e12, 3)
    out = subject.call(*inputs, is_causal=True).out
    wanted = np.cumsum(inputs.value, -2) / np.arange(1, 4)[:, None]
    _close_up_to_rounding(subject, out, wanted, inputs)


@THEME.case(
    "hidden-by-bool-mask-below-1e12",
    "a boolean mask hides for good, also when visible scores are -1e12",
    needs={"bool_mask"},
)
def _below_mask(subject: Subject) -> None:
    inputs = _equal_scores(subject, -1e12, 4)
    mask = np.array([[1, 0, 0, 1]] * 3, bool)
    out = subject.call(*inputs, attn_mask=mask).out
    wanted = np.broadcast_to(inputs.value[..., [0, 3], :].mean(-2, keepdims=True), out.shape)
    _close_up_to_rounding(subject, out, wanted, inputs)


@THEME.case(
    "smallest-number-is-a-number",
    "a float mask of finfo.min everywhere hides nothing: all keys share equally",
    needs={"float_mask"},
    level="full",
)
def _finfo_min(subject: Subject) -> None:
    dtype = subject.dtype("float64")
    inputs = problem(subject, Size(3, 6, 8, 4))
    lowest = np.full((3, 6), float(np.finfo(dtype).min))
    out = subject.call(*inputs, attn_mask=lowest).out
    wanted = np.broadcast_to(inputs.value.mean(-2, keepdims=True), out.shape)
    close("out", out, wanted, 100 * EPS[dtype])


@THEME.case(
    "nan-in-keys-nobody-sees",
    "NaN in a key and a value that no query may see is harmless",
    needs={"bool_mask"},
    level="full",
)
def _nan_hidden(subject: Subject) -> None:
    inputs = problem(subject, Size(17, 33))
    inputs.key[..., 2, :] = inputs.value[..., 2, :] = np.nan  # bool_mask hides key 2 from all
    hold_to_oracle(subject, inputs, attn_mask=bool_mask(inputs))


@THEME.case(
    "nan-beyond-the-triangle",
    "NaN in keys after the last query, causal and L < S, is harmless",
    needs={"causal"},
    level="full",
)
def _nan_after(subject: Subject) -> None:
    inputs = problem(subject, Size(17, 33))
    inputs.key[..., 17:, :] = inputs.value[..., 17:, :] = np.nan
    hold_to_oracle(subject, inputs, is_causal=True)


@THEME.case(
    "infinity-before-the-window",
    "inf and NaN in keys that have left every window are harmless",
    needs={"causal", "window", "bottom_right"},
    level="full",
)
def _nan_before(subject: Subject) -> None:
    inputs = problem(subject, Size(4, 33))
    inputs.key[..., :9, :], inputs.value[..., :9, :] = np.inf, np.nan
    options: Options = {"window_size": 5, "causal_align": "bottom_right"}
    hold_to_oracle(subject, inputs, is_causal=True, **options)


@THEME.case(
    "nan-under-padding",
    "NaN in the padding of one sequence does not reach another",
    needs={"bool_mask", "batch"},
    level="full",
)
def _nan_padding(subject: Subject) -> None:
    inputs = problem(subject, Size(7, 12, H=4, Hkv=2 if subject.has("gqa") else 4))
    inputs.key[1, :, 5:], inputs.value[1, :, 5:] = np.nan, np.inf
    lengths = np.array([12, 5])[:, None, None, None]
    options: Options = {"enable_gqa": True} if subject.has("gqa") else {}
    hold_to_oracle(subject, inputs, attn_mask=np.arange(12) < lengths, **options)


@THEME.case("tiny-values", "values of 1e-30 are not lost", level="full")
def _tiny(subject: Subject) -> None:
    inputs = problem(subject, Size(17, 33))
    small = Problem(inputs.query, inputs.key, 1e-30 * inputs.value)
    hold_to_oracle(subject, small)


@THEME.case("first-score-is-largest", "scores that only fall, and scores that only rise")
def _sorted(subject: Subject) -> None:
    for order in (1.0, -1.0):
        inputs = problem(subject, Size(4, 70, 1, 4), seed=3)
        ramp = np.broadcast_to(order * np.linspace(-300, 300, 70)[:, None], inputs.key.shape)
        hold_to_oracle(subject, Problem(np.abs(inputs.query), ramp, inputs.value))


@THEME.case(
    "minus-infinity-leaves-no-trace", "weights of hidden keys are 0, not small", needs={"causal"}
)
def _no_trace(subject: Subject) -> None:
    inputs = problem(subject, Size(6, 6, 8, 4))
    inputs.value[..., 5, :] = 1e250 if subject.dtype("float64") == "float64" else 1e30
    out = subject.call(*inputs, is_causal=True).out[..., :5, :]
    true(np.abs(out).max() < 1e3, "out of the first rows", "nothing of a hidden value", out.max())
