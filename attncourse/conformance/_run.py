"""Run cases and collect what became of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from attncourse.conformance._case import LEVELS, Case
from attncourse.conformance._check import LeftOut, Mismatch
from attncourse.conformance._infer import subject_of
from attncourse.conformance._report import Outcome, Report
from attncourse.conformance._subject import Subject
from attncourse.rungs import Rung

THEMES = (
    "exact",
    "order",
    "lse",
    "shapes",
    "lengths",
    "sizes",
    "long",
    "masks",
    "layouts",
    "state",
    "values",
    "nonfinite",
    "metamorphic",
    "features",
    "precision",
    "rounding",
    "gradients",
    "backward",
    "floors",
)


def gathered(modules: Iterable[str]) -> tuple[Case, ...]:
    """Return the cases of some modules, in their order; their names are unique.

    Raises
    ------
    ValueError
        When two cases share a name.
    """
    cases = tuple(case for name in modules for case in import_module(name).THEME.cases)
    names = [case.name for case in cases]
    if len(set(names)) < len(names):
        raise ValueError(
            f"two cases share a name: {sorted(n for n in names if names.count(n) > 1)}"
        )
    return cases


@cache
def all_cases() -> tuple[Case, ...]:
    """Return every case of the suite for attention, theme by theme."""
    return gathered(f"attncourse.conformance.{theme}" for theme in THEMES)


def run(
    fn: Callable[..., Any] | Rung | str,
    level: str = "quick",
    features: Iterable[str] | None = None,
    *,
    library: str | None = None,
    only: str | Iterable[str] = "",
    device: str | None = None,
    strict: bool = False,
) -> Report:
    """Run an attention function through the suite.

    Parameters
    ----------
    fn : callable, Rung or str
        Takes query, key and value by position, shapes (..., L, E), (..., S, E), (..., S, Ev),
        and its other arguments by the names of `attncourse.attention`. A rung of the ladder,
        or its name, is called through `attncourse.attention`.
    level : {"quick", "full"}
        "quick" takes about a second; "full" adds more shapes, layouts, half types, NaN.
    features : iterable of str, optional
        What the function can do: keys of `attncourse.rungs.FEATURES`, and "scale", "half",
        "grad_twice". By default, an argument's name stands for its feature (`is_causal` for
        causal, `attn_mask` for masks of both kinds), and trial calls find out whether it
        takes axes in front and gives gradients; a rung declares its own.
    library : {"numpy", "torch"}, optional
        What the function takes. By default NumPy, unless it only answers with tensors.
    only : str or iterable of str
        Run only cases whose name starts so, such as "exact" or "exact/causal".
    device : str, optional
        Where tensors are put; on the CPU by default, or where a rung needs them.
    strict : bool
        Whether a warning fails a case.

    Returns
    -------
    Report
        True when no case failed.

    Raises
    ------
    ValueError
        For an unknown level, feature, library, or a name in `only` that fits no case.

    Examples
    --------
    >>> def mean_of_values(query, key, value):
    ...     return value.mean(-2, keepdims=True).repeat(len(query), axis=-2)
    >>> report = run(mean_of_values, only="exact/log-of-integers")
    >>> print(report.failed[0].wanted)
    [[2.636364, 3.636364], [2.636364, 3.636364]]
    """
    return report_on(subject_of(fn, features, library, device, strict), all_cases(), level, only)


def report_on(
    subject: Any, cases: tuple[Case, ...], level: str, only: str | Iterable[str] = ""
) -> Report:
    """Run those of some cases that belong to a level and whose names start as asked.

    Raises
    ------
    ValueError
        For an unknown level, or a name in `only` that fits no case.
    """
    if level not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS}, got {level!r}")
    starts = (only,) if isinstance(only, str) else tuple(only)
    for start in starts:
        if not any(case.name.startswith(start) for case in cases):
            raise ValueError(f"no case's name starts with {start!r}")
    upto = LEVELS[: LEVELS.index(level) + 1]
    report = Report(subject.name, subject.library, level, subject.features, subject.found_by)
    report.outcomes = [
        run_case(case, subject)
        for case in cases
        if case.name.startswith(starts) and (case.level in upto or case.name in starts)
    ]
    return report


def _told(error: BaseException) -> str:
    """Say what an exception says, whatever its writer did to it."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = f"{type(error).__name__}, which cannot be printed"
    return text.encode(errors="backslashreplace").decode()


def run_case(case: Case, subject: Subject) -> Outcome:
    """Run one case.

    Parameters
    ----------
    case : Case
        What to check.
    subject : Subject
        The function under test.

    Returns
    -------
    Outcome
        Never raises: an exception inside the function is a failed case.
    """
    if missing := case.missing(subject):
        return Outcome(case, "left out", lacks=tuple(missing))
    if case.too_large(subject):
        return Outcome(case, "left out")
    outcome = _tried(case, subject)
    flaw = subject.flaws.get(case.name, "")
    if flaw and outcome.status == "failed":
        return replace(outcome, status="left out", flaw=flaw)
    if flaw:
        wanted = f"the failure that is declared: {flaw}"
        return replace(outcome, status="failed", what="known flaw", wanted=wanted, came="none")
    return outcome


def _tried(case: Case, subject: Subject) -> Outcome:
    """Run one case, whatever is known of the function."""
    start = time.perf_counter()
    try:
        with np.errstate(all="ignore"):
            case.check(subject)
    except LeftOut:
        return Outcome(case, "left out")
    except Mismatch as found:
        return Outcome(
            case,
            "failed",
            time.perf_counter() - start,
            found.what,
            found.wanted,
            found.came,
            found.error,
            found.allowed,
        )
    except (Exception, SystemExit) as error:
        seconds = time.perf_counter() - start
        return Outcome(case, "failed", seconds, "call", "an answer", _told(error))
    return Outcome(case, "passed", time.perf_counter() - start)
