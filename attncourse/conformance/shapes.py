"""Ragged shapes: lengths and widths that no tile divides, lengths of one and of nothing.

Each length meets several ways of masking, and the widths take turns, so that neither a
last partial tile nor a padded width goes unvisited.
"""

from __future__ import annotations

from itertools import cycle

from attncourse.conformance._case import Theme
from attncourse.conformance._modes import MODES
from attncourse.conformance._oracle import Size, hold_to_oracle, problem
from attncourse.conformance._subject import Subject

THEME = Theme("shapes")
LENGTHS = (
    (1, 1),
    (1, 17),
    (17, 1),
    (5, 2),
    (2, 5),
    (15, 16),
    (16, 15),
    (17, 33),
    (63, 64),
    (64, 65),
    (113, 203),
)
EMPTY = ((0, 5), (5, 0), (0, 0))
WIDTHS = (1, 3, 8, 16, 24, 40, 59, 64, 80, 96)
QUICK = {
    (5, 2): ("plain", "causal", "bottom-right", "bool-mask", "grouped"),
    (17, 33): tuple(MODES),
}
FULL = ("plain", "causal", "bottom-right", "window", "bool-mask", "causal-lse", "everything")


def _add(size: Size, mode: str, level: str) -> None:
    """Add one case: this size, called this way, against the oracle."""
    needs = MODES[mode].needs

    def check(subject: Subject) -> None:
        inputs = problem(subject, size)
        hold_to_oracle(subject, inputs, **MODES[mode].options(inputs))

    wide = "" if size.Ev in (0, size.E) else f"-v{size.Ev}"
    THEME.add(
        f"{size.L}x{size.S}-w{size.E}{wide}-{mode}",
        f"{size.L} queries, {size.S} keys, width {size.E}, {mode}: the oracle's answer",
        check,
        needs=needs,
        level=level,
        scores=size.scores,
    )


def _size(length: tuple[int, int], width: int, mode: str, value_width: int = 0) -> Size:
    """Use fewer heads for longer sequences, so that a slow rung meets them too."""
    heads, kv_heads = (6, 2) if "gqa" in MODES[mode].needs else (2, 2)
    scores = length[0] * length[1]
    if scores > 10_000:
        heads = kv_heads = 1
    batch = 1 if scores > 3_000 else 2
    return Size(*length, E=width, Ev=value_width, B=batch, H=heads, Hkv=kv_heads)


def _fill() -> None:
    for length, modes in QUICK.items():
        for mode in modes:
            _add(_size(length, 8, mode, value_width=5), mode, "quick")
    widths = cycle(WIDTHS)
    for length in LENGTHS:
        for mode in FULL:
            if mode in QUICK.get(length, ()):
                continue
            if length == (113, 203) and mode == "everything":
                continue
            _add(_size(length, next(widths), mode), mode, "full")
    for width in WIDTHS:
        _add(_size((18, 21), width, "causal", value_width=width + 1), "causal", "full")
        _add(_size((19, 18), width, "plain", value_width=max(1, width - 1)), "plain", "full")
    for length in EMPTY:
        for mode in ("plain", "causal", "bottom-right", "lse", "grouped", "bool-mask"):
            level = "quick" if mode == "plain" else "full"
            _add(_size(length, 4, mode, value_width=3), mode, level)


_fill()


@THEME.case("two-axes", "(L, E) works as well as (B, H, L, E)", needs={"batch"})
def _two_axes(subject: Subject) -> None:
    inputs = problem(subject, Size(7, 9, 6, 5)).map(lambda array: array[0, 0])
    hold_to_oracle(subject, inputs)


@THEME.case("three-axes", "(H, L, E): heads without a batch", needs={"batch"}, level="full")
def _three_axes(subject: Subject) -> None:
    inputs = problem(subject, Size(7, 9, 6, 5, H=3)).map(lambda array: array[0])
    hold_to_oracle(subject, inputs)


@THEME.case("five-axes", "more than one batch axis", needs={"batch"}, level="full")
def _five_axes(subject: Subject) -> None:
    inputs = problem(subject, Size(7, 9, 6, 5, B=4, H=3))
    hold_to_oracle(subject, inputs.map(lambda a: a.reshape(2, 2, *a.shape[1:])))


@THEME.case(
    "empty-batch", "a batch of no sequences gives no results", needs={"batch"}, level="full"
)
def _empty_batch(subject: Subject) -> None:
    hold_to_oracle(subject, problem(subject, Size(3, 4, 6, 5, B=2)).map(lambda array: array[:0]))


@THEME.case("many-heads", "13 heads, a batch of 3", needs={"batch"}, level="full", scores=39 * 24)
def _many_heads(subject: Subject) -> None:
    hold_to_oracle(subject, problem(subject, Size(4, 6, 8, 5, B=3, H=13)))


@THEME.case(
    "one-key-head", "all query heads share a single key head", needs={"gqa", "batch"}, level="full"
)
def _one_key_head(subject: Subject) -> None:
    inputs = problem(subject, Size(9, 11, 8, 5, H=5, Hkv=1))
    hold_to_oracle(subject, inputs, enable_gqa=True)


@THEME.case(
    "window-longer-than-keys",
    "a window wider than all keys hides nothing more than causality",
    needs={"causal", "window"},
)
def _long_window(subject: Subject) -> None:
    hold_to_oracle(subject, problem(subject, Size(9, 6)), is_causal=True, window_size=1000)


@THEME.case(
    "window-of-one-tile",
    "windows of 15, 16, 17 and 33 keys over 70",
    needs={"causal", "window"},
    level="full",
    scores=4 * 4900,
)
def _tile_windows(subject: Subject) -> None:
    for window_size in (15, 16, 17, 33):
        inputs = problem(subject, Size(70, 70, B=1, H=1))
        hold_to_oracle(subject, inputs, is_causal=True, window_size=window_size)
