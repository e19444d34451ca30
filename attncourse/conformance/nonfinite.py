"""NaN and infinity that a query may see must show: a broken input is not to be made whole.

`values` holds that nobody sees what is hidden. Here is the reverse: a function that cleans
its result with `nan_to_num` turns a broken model into one that is quietly wrong.
"""

from __future__ import annotations

import numpy as np

from attncourse.conformance._backward import gradients, output_gradient
from attncourse.conformance._case import Theme
from attncourse.conformance._check import close, true
from attncourse.conformance._oracle import Size, problem
from attncourse.conformance._subject import Subject
from attncourse.conformance._tolerance import rounding

THEME = Theme("nonfinite")
SIZE = Size(5, 7, 4, 3)


@THEME.case(
    "nan-in-a-query",
    "NaN in one query is NaN in its row of the output, and in no other row",
    level="full",
)
def _query(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    clean = subject.call(*inputs).out
    inputs.query[..., 2, 1] = np.nan
    out = subject.call(*inputs).out
    true(np.isnan(out[..., 2, :]).all(), "out of that row", "NaN", out[..., 2, :].ravel()[:3])
    rest = [0, 1, 3, 4]
    allowed = rounding(subject.dtype("float64"), problem(subject, SIZE), {})[0]
    close("out of the other rows", out[..., rest, :], clean[..., rest, :], allowed)


@THEME.case("nan-in-a-key", "NaN in a key that every query sees is NaN in every row", level="full")
def _key(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    inputs.key[..., 3, 1] = np.nan
    out = subject.call(*inputs).out
    true(np.isnan(out).all(), "out", "NaN everywhere", out.ravel()[:3])


@THEME.case(
    "nan-in-a-value",
    "NaN in one column of a value that every query sees is NaN in that column",
    level="full",
)
def _value(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    inputs.value[..., 3, 1] = np.nan
    out = subject.call(*inputs).out[..., 1]
    true(np.isnan(out).all(), "out of that column", "NaN everywhere", out.ravel()[:3])


@THEME.case(
    "infinity-in-a-value",
    "infinity in one column of a value that every query sees leaves no finite number there",
    level="full",
)
def _infinite(subject: Subject) -> None:
    for sign in (1, -1):
        inputs = problem(subject, SIZE)
        inputs.value[..., 3, 1] = sign * np.inf
        out = subject.call(*inputs).out[..., 1]
        true(not np.isfinite(out).any(), "out of that column", "infinity or NaN", out.ravel()[:3])


@THEME.case(
    "nan-reaches-gradients",
    "NaN in the gradient of the output shows in the gradients of what that row saw",
    needs={"grad", "torch"},
    level="full",
)
def _gradient(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    upstream = output_gradient(inputs)
    upstream[..., 2, :] = np.nan
    for name, grad in gradients(subject, inputs, upstream).items():
        there = grad[..., 2, :] if name == "query" else grad
        true(np.isnan(there).all(), f"gradient of {name}", "NaN", there.ravel()[:3])
