"""Exact answers: weighted means of whole numbers, worked out with fractions.

Where a score is the logarithm of a whole number n, its weight is n divided by the sum of
all those numbers: log 1, log 2 and log 3 give the weights 1/6, 2/6 and 3/6. So the whole
answer is a fraction that fits on paper, and no exponential is taken to find it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from attncourse.conformance._check import close
from attncourse.conformance._subject import Subject
from attncourse.conformance._tolerance import EPS

COUNTS = (3, 1, 2, 5)
VALUES = ((6, -1), (12, 0), (-3, 4), (1, 7))


def mean(counts: Any, values: Any = VALUES) -> list[float]:
    """Return the mean of the value rows, weighted by whole numbers; 0 when all are 0.

    Parameters
    ----------
    counts : sequence of int or Fraction
        Weight of each key before division by their sum; 0 hides a key.
    values : sequence of rows of int
        The values.

    Returns
    -------
    list of float
        One row, computed with fractions.

    Examples
    --------
    >>> mean([1, 3], [(0, 4), (4, 0)])
    [3.0, 1.0]
    """
    total = sum(map(Fraction, counts))
    columns = zip(*values, strict=True)
    if not total:
        return [0.0 for _ in columns]
    sums = (sum(Fraction(n) * v for n, v in zip(counts, c, strict=True)) for c in columns)
    return [float(part / total) for part in sums]


def keys_for(counts: Any = COUNTS, width: int = 1) -> np.ndarray:
    """Return keys whose first component is log n, the others unseen by the query."""
    keys = np.ones((len(counts), width))
    keys[:, 0] = np.log(counts)
    return keys


def queries_for(rows: int, width: int = 1) -> np.ndarray:
    """Return queries that read the first component, at the default scale exactly."""
    queries = np.zeros((rows, width))
    queries[:, 0] = np.sqrt(width)
    return queries


def room(subject: Subject) -> float:
    """Allow the rounding of a few operations on numbers of about ten."""
    return 400 * EPS[subject.dtype("float64")]


def hold(subject: Subject, wanted: Any, *, keys: Any = None, **options: Any) -> None:
    """Compare one head, L = len(wanted), with fractions."""
    wanted = np.array(wanted, float)
    keys = keys_for() if keys is None else keys
    queries = queries_for(len(wanted), keys.shape[-1])
    answer = subject.call(queries, keys, np.array(VALUES[: len(keys)]), **options)
    close("out", answer.out, wanted, room(subject))


def hold_heads(subject: Subject, wanted: Any, keys: Any, values: Any, **options: Any) -> None:
    """Compare (1, H, L, Ev) with fractions; queries read log n."""
    wanted = np.array(wanted, float)[None]
    queries = np.ones((*wanted.shape[:-1], 1))
    out = subject.call(queries, keys[None], values[None], **options).out
    close("out", out, wanted, room(subject))
