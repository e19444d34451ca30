"""Digits that get lost on the way: every option in float32 and in half types, and long sums.

What is rounded too early shows only in the type that has the digits. So each way of calling
is held to float32's rounding, and to twice plain PyTorch's error in half types; and sums over
many keys must go on adding where a half type's own sum stands still.
"""

from __future__ import annotations

import numpy as np

from attncourse.conformance._case import Theme
from attncourse.conformance._check import close
from attncourse.conformance._modes import MODES
from attncourse.conformance._oracle import Problem, Size, hold_to_oracle, problem
from attncourse.conformance._subject import Subject
from attncourse.conformance._tolerance import EPS
from attncourse.conformance.precision import HALVES, hold_half, usable

THEME = Theme("rounding")
IN_HALF = ("bool-mask", "float-mask", "window", "softcap", "alibi", "causal-alibi", "dropout")


def _size(mode: str) -> Size:
    grouped = "gqa" in MODES[mode].needs
    return Size(17, 33, 16, 8, B=1, H=4 if grouped else 2, Hkv=2)


def _in_float32(subject: Subject, mode: str) -> None:
    inputs = problem(subject, _size(mode), gain=0.3)
    options = MODES[mode].options(inputs)
    if "alibi_slopes" in options:  # no powers of two, and gentle: far keys count
        options["alibi_slopes"] = 0.1037 * options["alibi_slopes"]
    hold_to_oracle(subject, inputs, dtype="float32", **options)


def _in_half(subject: Subject, mode: str) -> None:
    inputs = problem(subject, _size(mode))
    for dtype in HALVES:
        if usable(subject, dtype):
            hold_half(subject, inputs, dtype, **MODES[mode].options(inputs))


def _fill() -> None:
    for mode in MODES:

        def check(subject: Subject, mode: str = mode) -> None:
            _in_float32(subject, mode)

        THEME.add(
            f"float32-{mode}",
            f"float32 inputs, {mode}: right up to float32's rounding",
            check,
            needs=MODES[mode].needs,
            level="full",
            scores=_size(mode).scores,
        )
    for mode in IN_HALF:

        def check_half(subject: Subject, mode: str = mode) -> None:
            _in_half(subject, mode)

        THEME.add(
            f"half-{mode}",
            f"float16 and bfloat16, {mode}: at most twice plain PyTorch's error",
            check_half,
            needs=MODES[mode].needs | {"half"},
            level="full",
            scores=_size(mode).scores,
        )


_fill()


def _long_mean(subject: Subject, dtype: str, num_keys: int) -> None:
    """Average ones, and ones between zeros, over many equal keys: 1 and 1/2, in any type."""
    value = np.ones((num_keys, 2))
    value[1::2, 1] = 0.0
    inputs = Problem(np.zeros((1, 1)), np.zeros((num_keys, 1)), value)
    answer = subject.call(*inputs, dtype=dtype)
    # Added one after the other in float32, n numbers are off by n half steps at most.
    allowed = EPS[dtype] + num_keys * EPS["float32"] / 2
    close(f"out in {dtype}", answer.out, [[1.0, 0.5]], allowed)


def _fill_long() -> None:
    for dtype in ("float16", "bfloat16", "float32"):
        for num_keys in (512, 8192):

            def check(subject: Subject, dtype: str = dtype, num_keys: int = num_keys) -> None:
                if usable(subject, dtype):
                    _long_mean(subject, dtype, num_keys)

            THEME.add(
                f"mean-of-{num_keys}-in-{dtype}",
                f"the mean of {num_keys:,} ones is 1 in {dtype}: their sum does not stand still",
                check,
                needs=set() if dtype == "float32" else {"half"},
                level="full",
                scores=num_keys,
            )


_fill_long()
