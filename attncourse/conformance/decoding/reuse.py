"""Steps that follow each other: a cache that grows in place, and results that are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse import reference
from attncourse.conformance._case import Theme
from attncourse.conformance._check import close, same_bits
from attncourse.conformance._oracle import Problem, Size
from attncourse.conformance._subject import to_numpy
from attncourse.conformance._tolerance import EPS
from attncourse.conformance.decoding._step import StepSubject, draw

THEME = Theme("reuse")


def _room(subject: StepSubject) -> float:
    return 1e3 * EPS[subject.dtype("float64")]


@THEME.case(
    "token-by-token", "a text read token by token gives the rows of causal attention over it"
)
def _text(subject: StepSubject) -> None:
    inputs = draw(subject, Size(12, 12, 4, 3))
    wanted = reference.attention(inputs.query, inputs.key, inputs.value, is_causal=True)
    for t in range(12):
        query = inputs.query[:, :, t : t + 1]
        step = Problem(query, inputs.key[:, :, : t + 1], inputs.value[:, :, : t + 1])
        close(f"row {t}", subject.step(step).out, wanted[:, :, t : t + 1], _room(subject))


@THEME.case("results-are-kept", "a step's result keeps its numbers during later steps")
def _kept(subject: StepSubject) -> None:
    for size in (Size(1, 9, 4, 3), Size(1, 1, 1, 1, B=1, H=1)):
        first = subject.step(draw(subject, size))
        for seed in (1, 2):
            subject.step(draw(subject, size, seed=seed))
        same_bits("first out, after two more steps", to_numpy(first.native_out), first.out)


@THEME.case(
    "result-is-its-own-memory",
    "a result keeps its numbers when the cache is overwritten afterwards",
)
def _own(subject: StepSubject) -> None:
    for size in (Size(1, 1, 3, 3), Size(1, 1, 1, 1, B=1, H=1), Size(1, 3, 3, 3)):
        natives = subject.natives(draw(subject, size))
        answer = subject.step_native(natives, {})
        for name, array in natives.items():
            if name not in ("block_table", "lengths"):
                array[...] = 9.0
        same_bits("out, after the cache changed", to_numpy(answer.native_out), answer.out)


@THEME.case(
    "same-cache-new-numbers",
    "the same arrays with other numbers: nothing is remembered by an array's identity",
)
def _identity(subject: StepSubject) -> None:
    natives = subject.natives(draw(subject, Size(1, 9, 4, 3)))
    subject.step_native(natives, {})
    for seed in (3, 4):
        other = draw(subject, Size(1, 9, 4, 3), seed=seed)
        for name, array in subject.natives(other).items():
            natives[name][...] = array
        wanted = subject.step(other).out  # in new arrays
        came = subject.step_native(natives, {}).out
        close("out of other numbers in the same arrays", came, wanted, _room(subject))


@THEME.case(
    "cache-grows-in-place",
    "one array that fills up step by step, with lengths that grow",
    needs={"lengths"},
)
def _grows(subject: StepSubject) -> None:
    whole = draw(subject, Size(1, 9, 4, 3))
    natives = subject.natives(whole, (9, 9))
    for end in (1, 2, 5, 9):
        natives["lengths"][...] = end
        wanted = subject.step(whole, (end, end)).out  # in new arrays
        came = subject.step_native(natives, {}).out
        close(f"out at length {end}", came, wanted, _room(subject))


@THEME.case("options-do-not-stick", "after a step with any option, a plain step is plain again")
def _stick(subject: StepSubject) -> None:
    inputs = draw(subject, Size(1, 9, 4, 3))
    plain = subject.step(inputs).out
    ways: dict[str, dict[str, Any]] = {
        "window": {"window_size": 2},
        "softcap": {"softcap": 0.5},
        "scale": {"scale": 3.0},
        "alibi": {"alibi_slopes": np.array([0.5, 1.0])},
        "lse": {"return_lse": True},
        "split": {"split": 2},
    }
    for need, options in ways.items():
        if subject.has(need):
            subject.step(inputs, **options)
            same_bits(f"plain out after {need}", subject.step(inputs).out, plain)


@THEME.case("hundred-steps", "the hundredth step is as right as the first", level="full")
def _hundred(subject: StepSubject) -> None:
    inputs = draw(subject, Size(1, 5, 2, 1))
    first = subject.step(inputs).out
    for number in range(2, 131):
        same_bits(f"out of step {number}", subject.step(inputs).out, first)
