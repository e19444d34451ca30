"""Cases with exact rational answers: scale, causal masks, windows, boolean masks."""

from __future__ import annotations

import numpy as np

from attncourse.conformance._case import Theme
from attncourse.conformance._check import close
from attncourse.conformance._fractions import (
    COUNTS,
    VALUES,
    hold,
    keys_for,
    mean,
    queries_for,
    room,
)
from attncourse.conformance._modes import Options
from attncourse.conformance._subject import Subject

THEME = Theme("exact")


@THEME.case("log-of-integers", "scores log 3, log 1, log 2, log 5 give weights 3, 1, 2, 5 of 11")
def _plain(subject: Subject) -> None:
    hold(subject, [mean(COUNTS)] * 2)


@THEME.case("default-scale-at-width-4", "scores are divided by sqrt(E) = 2")
def _width_four(subject: Subject) -> None:
    hold(subject, [mean(COUNTS)] * 3, keys=keys_for(width=4))


@THEME.case("default-scale-at-width-9", "the scale follows E, whatever the width of the values")
def _width_nine(subject: Subject) -> None:
    hold(subject, [mean(COUNTS)], keys=keys_for(width=9))


@THEME.case("default-scale-with-heads", "E is the width of one head", needs={"batch"})
def _heads(subject: Subject) -> None:
    shape = (2, 3, 2, 4)
    queries, keys = (
        np.broadcast_to(queries_for(2, 4), shape),
        np.tile(keys_for(width=4), (2, 3, 1, 1)),
    )
    values = np.tile(np.array(VALUES, float), (2, 3, 1, 1))
    out = subject.call(queries, keys, values).out
    close("out", out, np.broadcast_to(mean(COUNTS), (2, 3, 2, 2)), room(subject))


@THEME.case("scale-argument", "scale=2 squares the odds: 9, 1, 4, 25 of 39", needs={"scale"})
def _scale(subject: Subject) -> None:
    hold(subject, [mean([n * n for n in COUNTS])] * 2, scale=2.0)


@THEME.case("scale-zero", "scale=0 makes all keys equal, it does not mean default", needs={"scale"})
def _scale_zero(subject: Subject) -> None:
    hold(subject, [mean([1, 1, 1, 1])] * 2, keys=keys_for(width=4), scale=0.0)


@THEME.case("one-key", "a single key gets the whole weight, whatever its score")
def _one_key(subject: Subject) -> None:
    hold(subject, [VALUES[0]] * 2, keys=keys_for([7]))


@THEME.case("causal", "query i sees keys 0 … i, its own included", needs={"causal"})
def _causal(subject: Subject) -> None:
    rows = [mean(COUNTS[: i + 1], VALUES[: i + 1]) for i in range(4)]
    hold(subject, rows, is_causal=True)


@THEME.case("causal-more-keys", "with L < S the triangle stays at the top left", needs={"causal"})
def _causal_more_keys(subject: Subject) -> None:
    hold(subject, [mean(COUNTS[:1], VALUES[:1]), mean(COUNTS[:2], VALUES[:2])], is_causal=True)


@THEME.case("causal-more-queries", "with L > S late queries see every key", needs={"causal"})
def _causal_more_queries(subject: Subject) -> None:
    rows = [mean(COUNTS[: i + 1], VALUES[: i + 1]) for i in range(4)]
    hold(subject, [*rows, rows[-1], rows[-1]], is_causal=True)


@THEME.case(
    "causal-one-query",
    "a single query is query 0: of four keys it sees the first",
    needs={"causal"},
)
def _causal_one_query(subject: Subject) -> None:
    hold(subject, [mean(COUNTS[:1], VALUES[:1])], is_causal=True)


@THEME.case(
    "bottom-right",
    "the last query sees every key; the one before all but one",
    needs={"causal", "bottom_right"},
)
def _bottom_right(subject: Subject) -> None:
    rows = [mean(COUNTS[:3], VALUES[:3]), mean(COUNTS)]
    hold(subject, rows, is_causal=True, causal_align="bottom_right")


@THEME.case(
    "bottom-right-empty-rows",
    "with L > S the first queries see nothing and give 0",
    needs={"causal", "bottom_right"},
)
def _bottom_right_empty(subject: Subject) -> None:
    rows = [[0, 0]] * 2 + [mean(COUNTS[: i + 1], VALUES[: i + 1]) for i in range(4)]
    hold(subject, rows, is_causal=True, causal_align="bottom_right")


@THEME.case("window", "W = 2: the own key and the one before it", needs={"causal", "window"})
def _window(subject: Subject) -> None:
    rows = [mean([n if i - 2 < j <= i else 0 for j, n in enumerate(COUNTS)]) for i in range(4)]
    hold(subject, rows, is_causal=True, window_size=2)


@THEME.case("window-of-one", "W = 1: only the own key", needs={"causal", "window"})
def _window_one(subject: Subject) -> None:
    hold(subject, VALUES, is_causal=True, window_size=1)


@THEME.case(
    "window-bottom-right",
    "the window follows the diagonal that causal_align chose",
    needs={"causal", "window", "bottom_right"},
)
def _window_bottom_right(subject: Subject) -> None:
    rows = [mean([0, *COUNTS[1:3], 0]), mean([0, 0, *COUNTS[2:]])]
    options: Options = {"window_size": 2, "causal_align": "bottom_right"}
    hold(subject, rows, is_causal=True, **options)


@THEME.case("bool-mask", "True = attend, and the rest is shared anew", needs={"bool_mask"})
def _bool_mask(subject: Subject) -> None:
    mask = np.array([[1, 0, 1, 0], [0, 1, 1, 1], [1, 1, 1, 1]], bool)
    rows = [mean(np.where(row, COUNTS, 0).tolist()) for row in mask]
    hold(subject, rows, attn_mask=mask)


@THEME.case("bool-mask-empty-row", "a row that may see nothing gives 0", needs={"bool_mask"})
def _empty_row(subject: Subject) -> None:
    mask = np.array([[1, 1, 1, 1], [0, 0, 0, 0]], bool)
    hold(subject, [mean(COUNTS), [0, 0]], attn_mask=mask)


@THEME.case(
    "mask-and-causal", "attn_mask and is_causal combine by AND", needs={"bool_mask", "causal"}
)
def _mask_and_causal(subject: Subject) -> None:
    mask = np.array([[1, 1, 1, 1], [0, 1, 1, 1], [1, 0, 1, 1]], bool)
    rows = [mean([n * bool(mask[i, j]) * (j <= i) for j, n in enumerate(COUNTS)]) for i in range(3)]
    hold(subject, rows, attn_mask=mask, is_causal=True)
