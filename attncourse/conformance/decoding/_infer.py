"""Find out what a decode function can do, from its arguments' names and by trial calls."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from attncourse.conformance._infer import arguments_of
from attncourse.conformance._oracle import Problem, Size, problem
from attncourse.conformance._subject import check_library
from attncourse.conformance.decoding._step import FEATURES, StepSubject

ARGUMENTS = {
    "lengths": "lengths",
    "scale": "scale",
    "window_size": "window",
    "softcap": "softcap",
    "alibi_slopes": "alibi",
    "return_lse": "lse",
    "split": "split",
    "block_table": "paged",
}
LIBRARIES = ("numpy", "torch") if importlib.util.find_spec("torch") else ("numpy",)


def step_subject(
    fn: Callable[..., Any],
    features: Iterable[str] | None = None,
    library: str | None = None,
    strict: bool = False,
) -> StepSubject:
    """Wrap a decode function for the suite.

    Parameters
    ----------
    fn : callable
        What to test.
    features : iterable of str, optional
        What it can do, of `FEATURES`. Found out by default.
    library : {"numpy", "torch"}, optional
        What it takes. Found out by default.
    strict : bool
        Whether a warning fails a case.

    Returns
    -------
    StepSubject

    Raises
    ------
    ValueError
        For an unknown feature or library.
    TypeError
        When `fn` cannot be called.
    """
    if not callable(fn):
        raise TypeError(f"wanted a decode function, got {type(fn).__name__}")
    if library is not None:
        check_library(library)
    names = set(arguments_of(fn))
    named = {feature for name, feature in ARGUMENTS.items() if name in names}
    name = f"{getattr(fn, '__module__', '?')}:{getattr(fn, '__name__', type(fn).__name__)}"
    pages = named & {"paged"} | ({"lengths"} if "paged" in named else set())
    subject = StepSubject(
        name, fn, library or "numpy", frozenset(pages | {"batch"}), strict=strict,
        enable_gqa="enable_gqa" in names,
    )  # fmt: skip
    if library is None:
        subject.library = _library(subject)
    if features is not None:
        subject.features, subject.found_by = known(features, FEATURES) | {"batch"}, "given"
        return subject
    found = named | _tried(subject) | ({"half"} if "torch" in LIBRARIES else set())
    subject.features = subject.features | found
    subject.found_by = "found by the names of its arguments and by trial calls"
    return subject


def known(features: Iterable[str], there: Iterable[str]) -> frozenset[str]:
    """Check names of features.

    Raises
    ------
    ValueError
        When one is unknown.
    """
    given = frozenset(features.split(",") if isinstance(features, str) else features)
    if unknown := sorted(given - set(there)):
        raise ValueError(f"no feature is called {unknown}; there are {[*there]}")
    return given


def _answers(subject: StepSubject, inputs: Problem) -> np.ndarray | None:
    try:
        return subject.step(inputs).out
    except (Exception, SystemExit):
        return None


def _library(subject: StepSubject) -> str:
    """Take the first library in which a small step is answered; NumPy where none is."""
    for library in LIBRARIES:
        subject.library = library
        if _answers(subject, problem(subject, Size(1, 3, 4, 2, B=2))) is not None:
            return library
    return "numpy"


def _tried(subject: StepSubject) -> set[str]:
    """Try shared heads, and whether the first of two queries is kept from the last key."""
    found = set()
    if _answers(subject, problem(subject, Size(1, 3, 4, 2, H=4, Hkv=2))) is not None:
        found.add("gqa")
    inputs = problem(subject, Size(2, 3, 4, 2))
    before = _answers(subject, inputs)
    inputs.value[:, :, 2:] += 1
    after = _answers(subject, inputs)
    if (
        before is not None
        and after is not None
        and np.allclose(before[..., 0, :], after[..., 0, :])
    ):
        found.add("several")
    return found
