"""Every length, not a sample of them: one more than a tile, just a tile, all sizes equal.

A mistake that shows at 65 keys hides at 64 and at 66, and two axes of the same length can be
taken for each other in silence. Small shapes are cheap, so all of them are tried.
"""

from __future__ import annotations

from attncourse import reference
from attncourse.conformance._backward import hold_gradients
from attncourse.conformance._case import Theme
from attncourse.conformance._check import close
from attncourse.conformance._modes import MODES
from attncourse.conformance._oracle import Size, hold_to_oracle, problem
from attncourse.conformance._subject import Subject
from attncourse.conformance._tolerance import rounding
from attncourse.conformance.sizes import TILE

THEME = Theme("lengths")
ONE = {"E": 1, "Ev": 2, "B": 1, "H": 1}


@THEME.case(
    "one-key-more-than-tiles",
    "17, 33, 65, 129 and 257 keys, one more than whole tiles: the oracle's answer",
    scores=2 * 257,
)
def _one_more(subject: Subject) -> None:
    for num_keys in (17, 33, 65, 129, 257):
        hold_to_oracle(subject, problem(subject, Size(2, num_keys, **ONE)))


@THEME.case(
    "one-query-more-than-tiles",
    "17, 33, 65, 129 and 257 queries, one more than whole tiles: the oracle's answer",
    scores=2 * 257,
)
def _one_query_more(subject: Subject) -> None:
    for num_queries in (17, 33, 65, 129, 257):
        hold_to_oracle(subject, problem(subject, Size(num_queries, 2, **ONE)))


@THEME.case(
    "whole-tiles",
    "16, 32, 64, 128 and 256 keys and as many queries: the oracle's answer",
    level="full",
    scores=256 * 256,
)
def _whole_tiles(subject: Subject) -> None:
    for length in (16, 32, 64, 128, 256):
        hold_to_oracle(subject, problem(subject, Size(length, length, **ONE)))


@THEME.case(
    "every-number-of-keys", "1, 2, 3 … 130 keys: the oracle's answer", level="full", scores=260
)
def _every_key(subject: Subject) -> None:
    for num_keys in range(1, 131):
        hold_to_oracle(subject, problem(subject, Size(2, num_keys, **ONE)))


@THEME.case(
    "every-number-of-queries",
    "1, 2, 3 … 130 queries: the oracle's answer",
    level="full",
    scores=260,
)
def _every_query(subject: Subject) -> None:
    inputs = problem(subject, Size(130, 2, **ONE))
    wanted = reference.attention(*inputs)
    allowed = rounding(subject.dtype("float64"), inputs, {})[0]
    for num_queries in range(1, 131):
        out = subject.call(inputs.query[..., :num_queries, :], inputs.key, inputs.value).out
        close(f"out of {num_queries} queries", out, wanted[..., :num_queries, :], allowed)


@THEME.case(
    "every-width",
    "widths of 1, 2, 3 … 70, and values of every other width",
    level="full",
    scores=6,
)
def _every_width(subject: Subject) -> None:
    for width in range(1, 71):
        hold_to_oracle(subject, problem(subject, Size(2, 3, width, 71 - width, B=1, H=1)))


@THEME.case(
    "every-batch",
    "1, 2, 3 … 9 sequences of 9, 8, 7 … 1 heads",
    needs={"batch"},
    scores=165 * TILE,
)
def _every_batch(subject: Subject) -> None:
    for batch in range(1, 10):
        hold_to_oracle(subject, problem(subject, Size(2, 3, 1, 2, B=batch, H=10 - batch)))


SMALL = ("plain", "causal", "bottom-right", "window", "window-bottom-right", "bool-mask", "lse")


def _fill_small() -> None:
    """Add every shape up to 6 queries and 6 keys, nothing at all included."""
    for mode in SMALL:

        def check(subject: Subject, mode: str = mode) -> None:
            for length in range(7 * 7):
                inputs = problem(subject, Size(length // 7, length % 7, **ONE))
                hold_to_oracle(subject, inputs, **MODES[mode].options(inputs))

        says = f"0 … 6 queries and 0 … 6 keys, {mode}: all 49 shapes"
        THEME.add(f"every-small-shape-{mode}", says, check, needs=MODES[mode].needs, level="full")


_fill_small()


def _fill_equal() -> None:
    """Add shapes in which all axes are equally long, so that none is known by its length."""
    for mode in MODES:

        def check(subject: Subject, mode: str = mode) -> None:
            for n in (2, 3):
                inputs = problem(subject, Size(n, n, n, n, B=n, H=n))
                hold_to_oracle(subject, inputs, **MODES[mode].options(inputs))

        says = f"batch, heads, queries, keys and widths all 2, then all 3; {mode}"
        level = "quick" if mode in ("plain", "bool-mask") else "full"
        THEME.add(
            f"all-equal-{mode}",
            says,
            check,
            needs=MODES[mode].needs | {"batch"},
            level=level,
            scores=81,
        )


_fill_equal()


@THEME.case(
    "every-small-shape-backward",
    "gradients of 1 … 5 queries and 1 … 5 keys, causal and not",
    needs={"grad", "torch"},
    level="full",
    scores=25,
)
def _small_backward(subject: Subject) -> None:
    for length in range(25):
        # Values are now wider than keys, now as wide: kernels tell the two apart.
        size = Size(1 + length // 5, 1 + length % 5, 2 + length % 2, 3, B=1, H=1)
        inputs = problem(subject, size)
        hold_gradients(subject, inputs)
        if subject.has("causal"):
            hold_gradients(subject, inputs, is_causal=True)
