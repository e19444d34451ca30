"""What each rung can do, found out by doing it.

A yes means that cases which need the feature ran and all passed; a no means that a call
which asks for it was refused with an error that names the rung and the feature. Anything
else is no table entry but an error.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

import numpy as np

from attncourse.conformance._flaws import flaws_of
from attncourse.conformance._limits import missing_package
from attncourse.conformance._report import Report
from attncourse.conformance._run import run
from attncourse.rungs import FEATURES, LADDER, Rung, attention

# The smallest arguments that ask for a feature and for as little else as possible.
ASKING: dict[str, dict[str, Any]] = {
    "batch": {},
    "bool_mask": {"attn_mask": np.ones((3, 3), bool)},
    "float_mask": {"attn_mask": np.zeros((3, 3))},
    "causal": {"is_causal": True},
    "bottom_right": {"is_causal": True, "causal_align": "bottom_right"},
    "window": {"is_causal": True, "window_size": 2},
    "softcap": {"softcap": 2.0},
    "alibi": {"alibi_slopes": np.ones(2)},
    "gqa": {"enable_gqa": True},
    "dropout": {"dropout_p": 0.5},
    "dropout_seed": {"dropout_p": 0.5, "dropout_seed": 1},
    "lse": {"return_lse": True},
    "grad": {},
}


def ask(rung: Rung, feature: str) -> Any:
    """Call a rung with arguments that need a feature.

    Parameters
    ----------
    rung : Rung
        Which rung.
    feature : str
        A key of `attncourse.rungs.FEATURES`.

    Returns
    -------
    ndarray, Tensor or tuple
        Its answer, when it does not refuse.
    """
    lead = {"batch": (1, 2), "alibi": (1, 2), "gqa": (1, 2)}.get(feature, ())
    query = np.ones((*lead, 3, 4))
    key = np.ones((*(lead[:1]), 1, 3, 4)) if feature == "gqa" else np.ones((*lead, 3, 4))
    arrays: list[Any] = [query, key, key]
    if rung.library == "torch" or feature == "grad":
        import torch

        dtype = getattr(torch, rung.limits.dtypes[0])
        arrays = [torch.tensor(array, dtype=dtype, device=rung.limits.device) for array in arrays]
    if feature == "grad":
        arrays = [array.requires_grad_() for array in arrays]
    return attention(arrays[0], arrays[1], arrays[2], rung=rung.name, **ASKING[feature])


def refuses(rung: Rung, feature: str) -> bool:
    """Tell whether a rung refuses a feature by naming it and itself.

    Returns
    -------
    bool
        False when the call is answered.

    Raises
    ------
    AssertionError
        When the call fails in another way.
    """
    named = "gradients" if feature == "grad" else feature
    try:
        ask(rung, feature)
    except (NotImplementedError, TypeError) as error:
        text = str(error)
        if repr(rung.name) in text and named in text:
            return True
        raise AssertionError(
            f"{rung.name} refused {feature} without naming both: {text}"
        ) from error
    except Exception as error:
        raise AssertionError(f"{rung.name} did not refuse {feature} but failed: {error}") from error
    return False


def capabilities(rung: Rung, report: Report | None = None) -> dict[str, str]:
    """Find out what a rung can do.

    Parameters
    ----------
    rung : Rung
        A rung of the ladder.
    report : Report, optional
        A run of the suite over this rung; a quick one is made by default.

    Returns
    -------
    dict
        Each feature to "yes" or "no"; "tested up to, on a CPU" to a number of scores; "fails, as
        is known" to names of cases.

    Raises
    ------
    AssertionError
        When a declared yes has no passing case or a failing one, or a declared no answers.
    ModuleNotFoundError
        When the rung cannot run here.
    """
    package = missing_package(rung.name)
    if package is not None:
        raise ModuleNotFoundError(f"rung {rung.name!r} needs {package}, which is not installed")
    report = run(rung, level="quick") if report is None else report
    found = {"library": library(rung)}
    for feature in FEATURES:
        found[feature] = _yes_or_no(rung, feature, report)
    limit = rung.limits.max_scores
    found["tested up to, on a CPU"] = "every case" if limit is None else f"{limit:,} scores"
    found["fails, as is known"] = ", ".join(sorted(flaws_of(rung.name))) or "nothing"
    return found


def library(rung: Rung) -> str:
    """Name what a rung computes with, a further package included."""
    return rung.library if rung.package is None else f"{rung.library}, {rung.package}"


def _yes_or_no(rung: Rung, feature: str, report: Report) -> str:
    needing = [o for o in report.outcomes if feature in o.case.needs or feature == "batch"]
    failed = [outcome.case.name for outcome in needing if outcome.status == "failed"]
    passed = any(outcome.status == "passed" for outcome in needing)
    if feature in rung.features:
        if failed or not passed:
            raise AssertionError(f"{rung.name} declares {feature}; passed: {passed}, {failed}")
        return "yes"
    if not refuses(rung, feature):
        raise AssertionError(f"{rung.name} declares no {feature}, but answered")
    return "no"


def capability_table(rungs: Iterable[Rung] = LADDER) -> list[list[str]]:
    """Make the table rung x feature.

    Parameters
    ----------
    rungs : iterable of Rung
        The rungs, in the order of the columns.

    Returns
    -------
    list of rows
        The first row names the rungs.
    """
    rungs = list(rungs)
    columns = [capabilities(rung) for rung in rungs]
    rows = [["feature", *(rung.name for rung in rungs)]]
    for name in ("library", *FEATURES, "tested up to, on a CPU", "fails, as is known"):
        label = FEATURES.get(name, name)
        rows.append([label, *(column[name] for column in columns)])
    return rows


def to_csv(rows: list[list[str]]) -> str:
    """Write rows as CSV, one line each."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
