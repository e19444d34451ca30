"""How far off an answer may be, from rounding alone.

A score is a sum of E products, so its rounding error grows with the largest score; the
weight's relative error is the score's absolute error; the output is a weighted mean of the
values. The bound below is that product with a factor to spare, so a case does not choose a
tolerance of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

SPARE = 30.0
# Distance from 1 to the next number. Half types are accumulated in float32 and rounded once.
EPS = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}


def distance(came: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return absolute differences, 0 where both are the same infinity or NaN, else inf."""
    with np.errstate(invalid="ignore"):
        error = np.abs(came - wanted)
    same = (came == wanted) | (np.isnan(came) & np.isnan(wanted))
    return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))


def largest(array: np.ndarray) -> float:
    """Return the largest finite absolute value, 0 of nothing."""
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max(initial=0.0))


def peak_score(query: np.ndarray, key: np.ndarray, options: dict[str, Any]) -> float:
    """Bound the absolute scores that a call can meet.

    Parameters
    ----------
    query, key : ndarray
        Float64; NaN and infinities are passed over.
    options : dict
        Arguments of the call.

    Returns
    -------
    float
        At least the largest absolute score, before and after anything is added.
    """
    scale = options.get("scale", query.shape[-1] ** -0.5)
    norms = [np.sqrt((np.where(np.isfinite(a), a, 0) ** 2).sum(-1)) for a in (query, key)]
    peak = abs(scale) * largest(norms[0]) * largest(norms[1])
    mask = options.get("attn_mask")
    if mask is not None and mask.dtype != bool:
        peak += largest(mask)
    if "alibi_slopes" in options:
        peak += largest(options["alibi_slopes"]) * (query.shape[-2] + key.shape[-2])
    return peak


def rounding(
    dtype: str, inputs: Iterable[np.ndarray], options: dict[str, Any]
) -> tuple[float, float]:
    """Bound the rounding error of the output and of the log-sum-exp.

    Returns
    -------
    out, lse : float
        Largest absolute errors allowed.
    """
    query, key, value = inputs
    eps = max(EPS[dtype] if dtype in ("float64", "float32") else EPS["float32"], 2.0**-52)
    drift = SPARE * eps * (1.0 + peak_score(query, key, options))
    room = 1 / (1 - options.get("dropout_p", 0.0))
    own = 0.0 if dtype in ("float64", "float32") else EPS[dtype]
    return (drift + own) * room * largest(value), drift
