"""Rows of a float mask that are very low everywhere: finfo.min, -1e30, -1e9.

Only -inf hides. A row of finfo.min is a constant added to all scores, and whoever subtracts
the row's maximum gets ordinary weights. Whoever takes them as exp(score - lse) gets 1 for
every key, since log n is lost beside such a number: right forward, wrong backward.
"""

from __future__ import annotations

import numpy as np

from attncourse.conformance._backward import NAMES, gradients, output_gradient, plain_gradients
from attncourse.conformance._case import Theme
from attncourse.conformance._check import close
from attncourse.conformance._oracle import Problem, Size, problem, rounded
from attncourse.conformance._subject import Subject, to_numpy
from attncourse.conformance._tolerance import EPS

THEME = Theme("floors")
# Values as wide as keys: PyTorch takes another kernel for these.
SIZE = Size(4, 6, 4, 4)
ROW = 2
FLOORS = {"finfo-min": None, "minus-1e30": -1e30, "minus-1e9": -1e9}
# Over more than one tile, and beside keys that are hidden for good.
LONG = Size(4, 150, 4, 3, B=1, H=1)


def _mask(dtype: str, floor: float | None, size: Size, hide: bool = False) -> np.ndarray:
    """Make an (L, S) mask of zeros with one low row; `hide` hides its first key as well."""
    lowest = float(np.finfo(dtype).min)
    mask = np.zeros((size.L, size.S))
    mask[ROW] = lowest if floor is None else floor
    if hide:
        mask[ROW, 0] = -np.inf
    return mask


def _forward(subject: Subject, floor: float | None) -> None:
    """With a query of zeros in the low row, all visible keys share equally in any type."""
    dtype = subject.dtype("float64")
    for size in (SIZE, LONG):
        for hide in (False, True):
            inputs = problem(subject, size)
            inputs.query[..., ROW, :] = 0
            out = subject.call(*inputs, attn_mask=_mask(dtype, floor, size, hide)).out
            seen = inputs.value[..., int(hide) :, :]
            close("out of the low row", out[..., ROW, :], seen.mean(-2), 1e3 * EPS[dtype])


def _lse(subject: Subject, floor: float | None) -> None:
    """Hold the log-sum-exp to the floor plus log n, as far as the type can tell."""
    dtype = subject.dtype("float64")
    inputs = problem(subject, SIZE)
    inputs.query[..., ROW, :] = 0
    mask = _mask(dtype, floor, SIZE)
    lse = np.asarray(subject.call(*inputs, attn_mask=mask, return_lse=True).lse)
    lowest = to_numpy(subject.native(mask, dtype))[ROW, 0]
    wanted = np.full_like(lse[..., ROW], max(lowest + np.log(SIZE.S), lowest))
    close("lse of the low row", lse[..., ROW], wanted, 8 * EPS[dtype] * abs(lowest))


def _backward(subject: Subject, floor: float | None) -> None:
    """Gradients of the low row alone, and of all rows, are those of plain PyTorch."""
    for dtype in dict.fromkeys((subject.dtype("float64"), "float32")):
        for size, hide in ((SIZE, False), (SIZE, True), (LONG, False)):
            inputs = rounded(subject, problem(subject, size), dtype)
            mask = _mask(dtype, floor, size, hide)
            upstream = output_gradient(inputs)
            alone = np.zeros_like(upstream)
            alone[..., ROW, :] = upstream[..., ROW, :]
            for pushed in (alone, upstream):
                _hold_gradients(subject, inputs, pushed, dtype, mask)


def _hold_gradients(
    subject: Subject, inputs: Problem, pushed: np.ndarray, dtype: str, mask: np.ndarray
) -> None:
    came = gradients(subject, inputs, pushed, dtype, attn_mask=mask)
    wanted = plain_gradients(inputs, pushed, dtype, {"attn_mask": mask})
    for name in NAMES:
        # Beside -1e9 a score keeps seven digits in float64: more is not to be had.
        close(f"gradient of {name}", came[name], wanted[name], 1e-4)


def _fill() -> None:
    for name, floor in FLOORS.items():

        def forward(subject: Subject, floor: float | None = floor) -> None:
            _forward(subject, floor)

        def lse(subject: Subject, floor: float | None = floor) -> None:
            _lse(subject, floor)

        def backward(subject: Subject, floor: float | None = floor) -> None:
            _backward(subject, floor)

        row = f"a row of {name.replace('-', ' ')} in a float mask"
        needs, scores = {"float_mask"}, LONG.scores
        says = f"{row} hides nothing: all keys share equally"
        THEME.add(f"{name}-forward", says, forward, needs=needs, level="full", scores=scores)
        says, needs = f"{row} plus log n is its log-sum-exp", needs | {"lse"}
        THEME.add(f"{name}-lse", says, lse, needs=needs, level="full", scores=SIZE.scores)
        says, needs = (
            f"{row} has the gradients of ordinary weights",
            {"float_mask", "grad", "torch"},
        )
        THEME.add(f"{name}-backward", says, backward, needs=needs, level="full", scores=scores)


_fill()
