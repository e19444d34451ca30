"""Random problems, and the comparison of a function with the float64 oracle."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncourse import reference
from attncourse.conformance._check import close
from attncourse.conformance._subject import Answer, Arrange, Subject, to_numpy
from attncourse.conformance._tolerance import rounding


@dataclass(frozen=True)
class Size:
    """The sizes of a problem: queries, keys, widths, batch and heads."""

    L: int
    S: int
    E: int = 8
    Ev: int = 0
    B: int = 2
    H: int = 2
    Hkv: int = 0

    @property
    def scores(self) -> int:
        """Number of scores of one call."""
        return self.B * self.H * self.L * self.S


@dataclass(frozen=True)
class Problem:
    """Query, key and value as float64 arrays."""

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray

    def __iter__(self) -> Iterator[np.ndarray]:
        """Unpack as the three positional arguments."""
        return iter((self.query, self.key, self.value))

    def map(self, change: Any) -> Problem:
        """Apply a function to all three."""
        return Problem(*map(change, self))


def problem(subject: Subject, size: Size, seed: int = 0, gain: float = 1.0) -> Problem:
    """Draw random inputs; axes in front only where the function takes them.

    Parameters
    ----------
    subject : Subject
        Decides between (B, H, L, E) and (L, E).
    size : Size
        All sizes; `Ev` is `E` and `Hkv` is `H` unless given.
    seed : int
        Names the numbers.
    gain : float
        Multiplies query and key.

    Returns
    -------
    Problem
    """
    rng = np.random.default_rng([seed, size.L, size.S, size.E])
    lead_q: tuple[int, ...] = (size.B, size.H) if subject.has("batch") else ()
    lead_kv = (size.B, size.Hkv or size.H) if lead_q else ()
    query = gain * rng.standard_normal((*lead_q, size.L, size.E))
    key = gain * rng.standard_normal((*lead_kv, size.S, size.E))
    return Problem(query, key, rng.standard_normal((*lead_kv, size.S, size.Ev or size.E)))


def score_shape(inputs: Problem) -> tuple[int, ...]:
    """Return (..., H, L, S)."""
    return (*inputs.query.shape[:-1], inputs.key.shape[-2])


def rounded(subject: Subject, inputs: Problem, dtype: str) -> Problem:
    """Return what the function sees: the numbers after rounding to `dtype`."""
    dtype = subject.dtype(dtype)
    return inputs.map(lambda array: to_numpy(subject.native(array, dtype)))


# What the oracle answered: it is slow by design, and every function is asked the same questions.
_ANSWERS: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}


def expected(inputs: Problem, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the oracle's output and log-sum-exp; each question is computed once.

    Parameters
    ----------
    inputs : Problem
        What the function under test sees, in float64.
    options : dict
        Other arguments of `attncourse.reference.attention`, `return_lse` among them.

    Returns
    -------
    out, lse : ndarray
        Read-only, for they are kept.
    """
    question = hashlib.blake2b(digest_size=16)
    for name, given in (*enumerate(inputs), *sorted(options.items())):
        if isinstance(given, np.ndarray):
            question.update(repr((name, given.dtype, given.shape)).encode())
            question.update(np.ascontiguousarray(given).tobytes())
        else:
            question.update(repr((name, given)).encode())
    key = question.digest()
    if key not in _ANSWERS:
        with np.errstate(all="ignore"):
            _ANSWERS[key] = reference.attention(*inputs, **options)
        for array in _ANSWERS[key]:
            array.flags.writeable = False
    return _ANSWERS[key]


def hold_to_oracle(
    subject: Subject,
    inputs: Problem,
    dtype: str = "float64",
    arrange: Arrange | None = None,
    factor: float = 1.0,
    compare: tuple[str, ...] = ("out", "lse"),
    **options: Any,
) -> Answer:
    """Call the function and compare it with `attncourse.reference.attention`.

    Parameters
    ----------
    subject : Subject
        The function under test.
    inputs : Problem
        What it is given.
    dtype : str
        Type of the inputs; the oracle gets the rounded numbers.
    arrange : callable, optional
        Memory layout, as in `Subject.call`.
    factor : float
        Multiplies the error allowed for rounding.
    compare : tuple of str
        What is compared, "out", "lse" or both, of what the call gave.
    **options
        Other arguments, as `attncourse.attention` takes them.

    Returns
    -------
    Answer
        What the function gave.

    Raises
    ------
    Mismatch
        When output or log-sum-exp are further off than rounding explains.
    """
    dtype = subject.dtype(dtype)
    seen = rounded(subject, inputs, dtype)
    for_oracle = dict(options)
    for name in ("attn_mask", "alibi_slopes"):
        if name in options:
            for_oracle[name] = to_numpy(subject.native(options[name], dtype))
    for_oracle["return_lse"] = True
    wanted, wanted_lse = expected(seen, for_oracle)
    answer = subject.call(*inputs, dtype=dtype, arrange=arrange, **options)
    for_out, for_lse = rounding(dtype, seen, for_oracle)
    if "out" in compare:
        close("out", answer.out, wanted, factor * for_out)
    if answer.lse is not None and "lse" in compare:
        close("lse", answer.lse, wanted_lse, factor * for_lse)
    return answer
