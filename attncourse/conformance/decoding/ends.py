"""Sequences that end at different places: lengths, what lies behind them, caches of nothing."""

from __future__ import annotations

import numpy as np

from attncourse.conformance._case import Theme
from attncourse.conformance._check import close, same_bits
from attncourse.conformance._modes import Options
from attncourse.conformance._oracle import Size
from attncourse.conformance._tolerance import EPS
from attncourse.conformance.decoding._step import StepSubject, draw, hold

THEME = Theme("ends")
LENGTHS = (9, 4, 1, 7)
SIZE = Size(1, 9, 4, 3, B=4)


@THEME.case(
    "lengths", "each sequence sees its own keys, and nothing behind them", needs={"lengths"}
)
def _lengths(subject: StepSubject) -> None:
    hold(subject, draw(subject, SIZE, LENGTHS), LENGTHS)


@THEME.case(
    "nan-behind-the-lengths",
    "NaN behind a sequence's end is never looked at",
    needs={"lengths"},
    level="full",
)
def _nan(subject: StepSubject) -> None:
    inputs = draw(subject, SIZE, LENGTHS, behind=np.nan)
    hold(subject, inputs, LENGTHS, behind=np.nan)
    hold(subject, inputs, LENGTHS, behind=np.nan, page=4)


@THEME.case(
    "all-places-filled", "lengths that fill the cache are as good as none", needs={"lengths"}
)
def _full(subject: StepSubject) -> None:
    inputs = draw(subject, SIZE)
    hold(subject, inputs, (9, 9, 9, 9))


@THEME.case("empty-cache", "an empty cache gives 0, and a log-sum-exp of -inf")
def _empty(subject: StepSubject) -> None:
    options: Options = {"return_lse": True} if subject.has("lse") else {}
    hold(subject, draw(subject, Size(1, 0, 4, 3)), **options)


@THEME.case(
    "an-empty-sequence",
    "a sequence of length 0 among others gives 0, and a log-sum-exp of -inf",
    needs={"lengths"},
)
def _some_empty(subject: StepSubject) -> None:
    options: Options = {"return_lse": True} if subject.has("lse") else {}
    lengths = (5, 0, 9, 0)
    hold(subject, draw(subject, SIZE, lengths), lengths, **options)


@THEME.case(
    "all-sequences-empty", "lengths of 0 everywhere give 0", needs={"lengths"}, level="full"
)
def _all_empty(subject: StepSubject) -> None:
    hold(subject, draw(subject, SIZE, (0, 0, 0, 0)), (0, 0, 0, 0))


@THEME.case(
    "several-queries-with-lengths",
    "the last query sees its sequence's last key, wherever that is",
    needs={"lengths", "several"},
)
def _several(subject: StepSubject) -> None:
    lengths = (9, 4, 3, 7)
    hold(subject, draw(subject, Size(3, 9, 4, 3, B=4), lengths), lengths)


@THEME.case(
    "more-queries-than-a-length",
    "a sequence shorter than the queries leaves the first of them blind",
    needs={"lengths", "several"},
    level="full",
)
def _blind(subject: StepSubject) -> None:
    options: Options = {"return_lse": True} if subject.has("lse") else {}
    lengths = (9, 2, 1, 0)
    hold(subject, draw(subject, Size(3, 9, 4, 3, B=4), lengths), lengths, **options)


@THEME.case(
    "window-with-lengths",
    "a window counts back from each sequence's own end",
    needs={"lengths", "window"},
)
def _window(subject: StepSubject) -> None:
    hold(subject, draw(subject, SIZE, LENGTHS), LENGTHS, window_size=3)


@THEME.case(
    "alibi-with-lengths",
    "ALiBi's distance counts back from each sequence's own end",
    needs={"lengths", "alibi"},
)
def _alibi(subject: StepSubject) -> None:
    inputs = draw(subject, SIZE, LENGTHS)
    for slopes in (np.array([0.2, 0.5]), np.linspace(0.1, 0.8, 8).reshape(4, 2)):
        hold(subject, inputs, LENGTHS, alibi_slopes=slopes)


@THEME.case(
    "lse-with-lengths",
    "the log-sum-exp counts each sequence's own keys",
    needs={"lengths", "lse"},
)
def _lse(subject: StepSubject) -> None:
    inputs = draw(subject, SIZE, LENGTHS)
    hold(subject, inputs, LENGTHS, compare=("lse",), return_lse=True)


@THEME.case(
    "shared-heads-with-lengths",
    "shared key heads and lengths together",
    needs={"lengths", "gqa"},
)
def _grouped(subject: StepSubject) -> None:
    hold(subject, draw(subject, Size(1, 9, 4, 3, B=4, H=6, Hkv=2), LENGTHS), LENGTHS)


@THEME.case("sequences-apart", "a sequence's answer does not hang on the others", needs={"lengths"})
def _apart(subject: StepSubject) -> None:
    inputs = draw(subject, SIZE, LENGTHS)
    whole = subject.step(inputs, LENGTHS).out
    for b, end in enumerate(LENGTHS):
        cut = slice(b, b + 1)
        alone = subject.step(inputs.map(lambda array, cut=cut: array[cut]), (end,)).out
        allowed = 1e3 * EPS[subject.dtype("float64")]
        close(f"out of sequence {b} alone", alone, whole[cut], allowed)


@THEME.case(
    "other-numbers-behind",
    "changing what lies behind the lengths changes no bit",
    needs={"lengths"},
    level="full",
)
def _behind(subject: StepSubject) -> None:
    inputs = draw(subject, SIZE, LENGTHS)
    before = subject.step(inputs, LENGTHS).out
    for b, end in enumerate(LENGTHS):
        inputs.key[b, :, end:], inputs.value[b, :, end:] = 50.0, -1e30
    same_bits("out", subject.step(inputs, LENGTHS).out, before)


@THEME.case(
    "every-length", "lengths of 0, 1, 2 … 20, in one batch", needs={"lengths"}, level="full"
)
def _every(subject: StepSubject) -> None:
    lengths = tuple(range(21))
    hold(subject, draw(subject, Size(1, 20, 2, 3, B=21, H=1), lengths), lengths, page=4)


@THEME.case("no-sequences", "a batch of no sequences gives no results", level="full")
def _no_batch(subject: StepSubject) -> None:
    inputs = draw(subject, Size(1, 5, 4, 3)).map(lambda array: array[:0])
    hold(subject, inputs, () if subject.has("lengths") else None)
