"""Keys in parts: any split gives the answer of one part, and blind parts leave no trace."""

from __future__ import annotations

import numpy as np

from attncourse.conformance._case import Theme
from attncourse.conformance._oracle import Problem, Size
from attncourse.conformance.decoding._step import StepSubject, draw, hold

THEME = Theme("parts")
SPLITS = (1, 2, 3, 5, 16, 17, 18, 1000)


@THEME.case("every-split", "parts of 1, 2, 3 … keys: the answer of one part", needs={"split"})
def _splits(subject: StepSubject) -> None:
    inputs = draw(subject, Size(1, 17, 4, 3))
    for split in SPLITS:
        hold(subject, inputs, split=split)


@THEME.case(
    "largest-score-in-any-part",
    "the largest score by far in the first, the middle and the last part",
    needs={"split"},
)
def _largest(subject: StepSubject) -> None:
    inputs = draw(subject, Size(1, 17, 4, 3))
    for j in (0, 8, 16):
        key = inputs.key.copy()
        key[:, :, j] = 40 * np.sign(inputs.query[:, :, 0])
        hold(subject, Problem(inputs.query, key, inputs.value), split=4)


@THEME.case("lse-of-parts", "the log-sum-exp of all parts together", needs={"split", "lse"})
def _lse(subject: StepSubject) -> None:
    inputs = draw(subject, Size(1, 17, 4, 3))
    for split in SPLITS:
        hold(subject, inputs, compare=("lse",), split=split, return_lse=True)


@THEME.case(
    "parts-behind-the-lengths",
    "a part that lies wholly behind a sequence's end leaves no trace",
    needs={"split", "lengths"},
)
def _blind(subject: StepSubject) -> None:
    lengths = (17, 3, 4, 0)
    inputs = draw(subject, Size(1, 17, 4, 3, B=4), lengths)
    for split in (1, 4, 5):
        hold(subject, inputs, lengths, split=split)


@THEME.case(
    "parts-before-the-window",
    "a part that lies wholly before the window leaves no trace",
    needs={"split", "window"},
)
def _window(subject: StepSubject) -> None:
    inputs = draw(subject, Size(1, 17, 4, 3))
    for window_size in (1, 4, 6):
        hold(subject, inputs, split=4, window_size=window_size)


@THEME.case(
    "parts-and-several-queries",
    "each of several queries sees its own share of the last part",
    needs={"split", "several"},
)
def _several(subject: StepSubject) -> None:
    inputs = draw(subject, Size(5, 17, 4, 3))
    for split in (1, 2, 4, 16):
        hold(subject, inputs, split=split)


@THEME.case(
    "parts-and-all-options",
    "parts, lengths, a window, ALiBi, a softcap and shared heads at once",
    needs={"split", "lengths", "window", "alibi", "softcap", "gqa", "several", "lse"},
    level="full",
)
def _everything(subject: StepSubject) -> None:
    lengths = (19, 7, 2, 11)
    inputs = draw(subject, Size(3, 19, 4, 3, B=4, H=4, Hkv=2), lengths)
    slopes = np.array([0.1, 0.2, 0.3, 0.4])
    for split in (1, 4, 7, 64):
        hold(
            subject,
            inputs,
            lengths,
            split=split,
            window_size=6,
            softcap=2.0,
            alibi_slopes=slopes,
            return_lse=True,
        )


@THEME.case(
    "scores-of-10000-in-parts",
    "parts whose scores are ±10,000 apart merge without overflow",
    needs={"split"},
    level="full",
)
def _huge(subject: StepSubject) -> None:
    hold(subject, draw(subject, Size(1, 33, 8, 5), gain=60.0), split=4)
