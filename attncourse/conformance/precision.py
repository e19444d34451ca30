"""Types: what comes in goes out, sums are float32 at least, half types are held to PyTorch.

In float16 and bfloat16 an error is not measured with a number of ours: plain PyTorch does
the same sum in the same type, and twice its error plus the rounding of the result itself is
what a function may be off by.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse import reference
from attncourse.conformance._backward import NAMES, gradients, output_gradient, plain_gradients
from attncourse.conformance._case import Theme
from attncourse.conformance._check import close, true
from attncourse.conformance._modes import MODES
from attncourse.conformance._oracle import Problem, Size, hold_to_oracle, problem, rounded
from attncourse.conformance._plain import plain
from attncourse.conformance._subject import Subject, to_numpy
from attncourse.conformance._tolerance import EPS, largest

THEME = Theme("precision")


@THEME.case("float32", "float32 inputs: right up to float32's rounding")
def _float32(subject: Subject) -> None:
    hold_to_oracle(subject, problem(subject, Size(17, 33)), dtype="float32")


@THEME.case("float32-causal", "float32 inputs under a causal mask", needs={"causal"}, level="full")
def _float32_causal(subject: Subject) -> None:
    inputs = problem(subject, Size(64, 65, 64, 40, B=1))
    hold_to_oracle(subject, inputs, dtype="float32", is_causal=True)


@THEME.case("thirds-in-float32", "weights of 1/3 keep 24 bits, as float16 weights would not")
def _thirds(subject: Subject) -> None:
    lead = (2, 2) if subject.has("batch") else ()
    query, key = np.zeros((*lead, 4, 2)), np.zeros((*lead, 3, 2))
    value = np.zeros((*lead, 3, 3)) + np.eye(3)
    out = subject.call(query, key, value, dtype="float32").out
    close("out", out, np.full_like(out, 1 / 3), 4 * EPS["float32"])


def _same_type(subject: Subject, dtype: str) -> None:
    inputs = problem(subject, Size(5, 7))
    answer = subject.call(*inputs, dtype=dtype)
    came = str(answer.native_out.dtype).removeprefix("torch.")
    true(came == dtype, "type of out", f"{dtype}, as the query", came)
    if subject.has("lse"):
        lse = subject.call(*inputs, dtype=dtype, return_lse=True).native_lse
        came = str(lse.dtype).removeprefix("torch.")
        allowed = ("float64",) if dtype == "float64" else ("float32", "float64")
        true(came in allowed, "type of lse", " or ".join(allowed), came)


@THEME.case("float32-stays", "float32 in, float32 out; lse float32 or wider", level="full")
def _float32_stays(subject: Subject) -> None:
    _same_type(subject, "float32")


@THEME.case("float64-stays", "float64 in, float64 out, lse too", level="full")
def _float64_stays(subject: Subject) -> None:
    _same_type(subject, subject.dtype("float64"))


HALVES = ("float16", "bfloat16")


def usable(subject: Subject, dtype: str) -> bool:
    """Tell whether a function is tested in a type; NumPy has no bfloat16."""
    return dtype in subject.dtypes and (subject.library == "torch" or dtype != "bfloat16")


@THEME.case(
    "half-stays", "half types in, the same out; lse float32 or wider", needs={"half"}, level="full"
)
def _half_stays(subject: Subject) -> None:
    for dtype in HALVES:
        if usable(subject, dtype):
            _same_type(subject, dtype)


def plain_error(inputs: Problem, dtype: str, options: dict[str, Any], wanted: np.ndarray) -> float:
    """Return the largest error of plain PyTorch in a type."""
    import torch

    tensors = [torch.tensor(array).to(getattr(torch, dtype)) for array in inputs]
    with torch.no_grad():
        out, _ = plain(tensors, options)
    return float(np.abs(to_numpy(out) - wanted).max(initial=0.0))


def hold_half(subject: Subject, inputs: Problem, dtype: str, **options: Any) -> None:
    """Allow twice the error of plain PyTorch plus half a step of the type."""
    seen = rounded(subject, inputs, dtype)
    for name in options.keys() & {"attn_mask", "alibi_slopes"}:
        options[name] = to_numpy(subject.native(options[name], dtype))
    wanted = reference.attention(*seen, **options)
    error = plain_error(seen, dtype, options, wanted)
    out = subject.call(*inputs, dtype=dtype, **options).out
    close(f"out in {dtype}", out, wanted, 2 * error + EPS[dtype] / 2 * largest(wanted))


def _fill() -> None:
    for mode in ("plain", "causal", "causal-grouped"):
        for length in ((17, 33), (64, 65)):

            def check(subject: Subject, mode: str = mode, length: tuple[int, int] = length) -> None:
                heads = (4, 2) if "grouped" in mode else (2, 2)
                size = Size(*length, 24, 16, B=1, H=heads[0], Hkv=heads[1])
                inputs = problem(subject, size)
                for dtype in HALVES:
                    if usable(subject, dtype):
                        hold_half(subject, inputs, dtype, **MODES[mode].options(inputs))

            THEME.add(
                f"half-{length[0]}x{length[1]}-{mode}",
                f"float16 and bfloat16, {mode}: at most twice plain PyTorch's error",
                check,
                needs={"half", *MODES[mode].needs},
                level="full",
                scores=4 * length[0] * length[1],
            )


_fill()


@THEME.case(
    "half-scores-of-9-million",
    "queries and keys of 3,000 in float16: sums go in float32",
    needs={"half"},
    level="full",
)
def _half_scores(subject: Subject) -> None:
    lead = (2, 2) if subject.has("batch") else ()
    size = 6
    one_hot = np.zeros((*lead, size, size)) + 3e3 * np.eye(size)
    value = problem(subject, Size(size, size, size, 4)).value
    for dtype in HALVES:
        if usable(subject, dtype):
            wanted = rounded(subject, Problem(one_hot, one_hot, value), dtype).value
            out = subject.call(one_hot, one_hot, value, dtype=dtype).out
            close(f"out in {dtype}", out, wanted, 0.0)


@THEME.case(
    "half-sum-over-65504",
    "64 values of 3,000 in float16: the unweighted sum would overflow",
    needs={"half"},
    level="full",
)
def _half_values(subject: Subject) -> None:
    lead = (2, 2) if subject.has("batch") else ()
    query, key = np.zeros((*lead, 5, 8)), np.zeros((*lead, 64, 8))
    out = subject.call(query, key, np.full((*lead, 64, 4), 3e3), dtype="float16").out
    close("out in float16", out, np.full_like(out, 3e3), 2.0)


@THEME.case(
    "half-long-row",
    "a mean over 2,049 keys in float16 keeps adding: 2,048 + 1 is not 2,048",
    needs={"half"},
    level="full",
    scores=4098,
)
def _half_long(subject: Subject) -> None:
    if not usable(subject, "float16"):
        return
    query, key, value = np.zeros((1, 4)), np.zeros((4098, 4)), np.ones((4098, 2))
    value[:, 1] = np.tile([1.0, 0.0], 2049)
    out = subject.call(query, key, value, dtype="float16").out
    close("out in float16", out, [[1.0, 0.5]], EPS["float16"] / 2)


@THEME.case(
    "half-gradients",
    "float16 and bfloat16: at most twice plain PyTorch's error",
    needs={"half", "grad", "torch"},
    level="full",
)
def _half(subject: Subject) -> None:
    inputs = problem(subject, Size(17, 33, 24, 16))
    upstream = output_gradient(inputs)
    for dtype in ("float16", "bfloat16"):
        seen = inputs.map(lambda array, dtype=dtype: to_numpy(subject.native(array, dtype)))
        pushed = to_numpy(subject.native(upstream, dtype))
        right = plain_gradients(seen, pushed, "float64", {})
        plain_half = plain_gradients(seen, pushed, dtype, {})
        came = gradients(subject, seen, pushed, dtype)
        for name in NAMES:
            error = float(np.abs(plain_half[name] - right[name]).max())
            allowed = 2 * error + EPS[dtype] / 2 * largest(right[name])
            close(f"gradient of {name} in {dtype}", came[name], right[name], allowed)


@THEME.case(
    "half-sum-over-512-rows",
    "a gradient that adds up 512 rows is not collected in bfloat16: 4,096 + 16 is not 4,096",
    needs={"half", "grad", "torch"},
    level="full",
    scores=512,
)
def _half_sum(subject: Subject) -> None:
    inputs = Problem(np.zeros((512, 4)), np.zeros((1, 4)), np.ones((1, 2)))
    upstream = np.ones((512, 2))
    upstream[0] = 4096
    came = gradients(subject, inputs, upstream, "bfloat16")
    # A whole step, not half of one: Triton's interpreter cuts to bfloat16 without rounding.
    close("gradient of value", came["value"], [[4607.0, 4607.0]], EPS["bfloat16"] * 4607)
