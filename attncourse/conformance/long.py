"""Sequences of many tiles, forward and backward.

A tiled function is right on a short sequence even when it visits the wrong tiles, since
there is only one. Here the keys fill three tiles of 64 or of 512, and what depends on a
tile's place (causality, windows, masks of one row or one column, dropout, ALiBi) is met in
each of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse.conformance._backward import hold_gradients
from attncourse.conformance._case import Theme
from attncourse.conformance._check import same_bits
from attncourse.conformance._modes import MODES, Options, bool_mask, float_mask
from attncourse.conformance._oracle import Problem, Size, hold_to_oracle, problem
from attncourse.conformance._subject import Subject

THEME = Theme("long")
LENGTHS = ((70, 150), (150, 70), (260, 1100))
MODES_HERE = (
    "causal",
    "bottom-right",
    "window",
    "window-bottom-right",
    "bool-mask",
    "mask-and-causal",
    "causal-float-mask",
    "causal-alibi",
    "causal-softcap",
    "causal-grouped",
    "causal-lse",
    "causal-dropout",
    "everything",
)
BACKWARD = ("causal", "window-bottom-right", "mask-and-causal", "causal-dropout", "everything")


def _size(length: tuple[int, int], mode: str, heads: int = 1) -> Size:
    """One sequence; two query heads a key head where grouped heads are asked for."""
    group = 2 if "gqa" in MODES[mode].needs else 1
    heads = max(heads, group)
    return Size(*length, E=8, Ev=5, B=1, H=heads, Hkv=heads // group)


def _options(mode: str, inputs: Problem) -> Options:
    """Make the windows longer than a few keys: they reach over the edge of a tile."""
    options = MODES[mode].options(inputs)
    if "window_size" in options:
        options["window_size"] = inputs.key.shape[-2] // 2 + 3
    return options


def _add(name: str, says: str, check: Any, needs: Any, scores: int) -> None:
    THEME.add(name, says, check, needs=needs, level="full", scores=scores)


def _fill(size: Size, mode: str, with_backward: bool) -> None:
    """Add a case forward and, if asked, one backward."""

    def forward(subject: Subject) -> None:
        inputs = problem(subject, size)
        hold_to_oracle(subject, inputs, **_options(mode, inputs))

    def backward(subject: Subject) -> None:
        inputs = problem(subject, size)
        hold_gradients(subject, inputs, **_options(mode, inputs))

    needs, heads = MODES[mode].needs, "" if size.H < 3 else f"-{size.H}-heads"
    name, says = f"{size.L}x{size.S}{heads}-{mode}", f"{size.L} queries, {size.S} keys, {mode}"
    needs = needs | ({"batch"} if heads else set())
    _add(name, f"{says}: the oracle's answer", forward, needs, size.scores)
    if with_backward:
        says = f"{says}: the gradients of plain PyTorch"
        _add(f"{name}-backward", says, backward, needs | {"grad", "torch"}, size.scores)


for _length in LENGTHS:
    for _mode in MODES_HERE:
        _fill(_size(_length, _mode), _mode, _mode in BACKWARD)
# So many scores that a thrifty function takes a few heads at a time.
for _mode in (
    "causal-alibi",
    "causal-grouped",
    "bool-mask",
    "causal-dropout",
    "causal-lse",
    "everything",
):
    _fill(_size((130, 1100), _mode, heads=8), _mode, _mode in BACKWARD)


def _fill_masks(size: Size, name: str, cut: Any) -> None:
    """Add a mask of each kind that is cut to some rows, columns or heads."""
    for kind, draw in (("bool_mask", bool_mask), ("float_mask", float_mask)):

        def check(subject: Subject, draw: Any = draw) -> None:
            inputs = problem(subject, size)
            hold_to_oracle(subject, inputs, attn_mask=draw(inputs)[cut])

        heads = "" if size.H < 3 else f"-{size.H}-heads"
        mask = kind.replace("_", "-")
        says = f"a mask of {name.replace('-', ' ')}, over {size.L} x {size.S} scores"
        needs = {kind, "batch"} if heads else {kind}
        _add(f"{size.L}x{size.S}{heads}-{mask}-of-{name}", says, check, needs, size.scores)


for _length in LENGTHS[1:]:
    _fill_masks(_size(_length, "plain"), "one-row", np.s_[..., :1, :])
    _fill_masks(_size(_length, "plain"), "one-column", np.s_[..., :1])
_fill_masks(_size((130, 1100), "plain", heads=8), "one-head", np.s_[:, :1])
_fill_masks(_size((130, 1100), "plain", heads=8), "three-axes", np.s_[0])


@THEME.case(
    "window-sizes-around-a-tile",
    "windows of 63, 64, 65, 127, 128, 129 and 512 keys, causal over 700",
    needs={"causal", "window"},
    level="full",
    scores=700 * 700,
)
def _windows(subject: Subject) -> None:
    inputs = problem(subject, Size(700, 700, 4, 3, B=1, H=1))
    for window_size in (63, 64, 65, 127, 128, 129, 512):
        hold_to_oracle(subject, inputs, is_causal=True, window_size=window_size)


@THEME.case(
    "nan-in-whole-tiles-nobody-sees",
    "NaN in a whole tile of keys that the mask hides from all, between tiles that are seen",
    needs={"bool_mask"},
    level="full",
    scores=70 * 200,
)
def _nan_tile(subject: Subject) -> None:
    inputs = problem(subject, Size(70, 200, 8, 5, B=1, H=1))
    hidden = slice(60, 140)
    inputs.key[..., hidden, :] = inputs.value[..., hidden, :] = np.nan
    mask = np.ones((70, 200), bool)
    mask[:, hidden] = False
    hold_to_oracle(subject, inputs, attn_mask=mask)


@THEME.case(
    "maximum-in-the-last-tile",
    "the largest score by far comes last, in the middle, and first",
    scores=5 * 1100,
)
def _maximum(subject: Subject) -> None:
    inputs = problem(subject, Size(5, 1100, 4, 3, B=1, H=1))
    for j in (1099, 600, 0):
        key = inputs.key.copy()
        key[..., j, :] = 40 * np.sign(inputs.query.sum((-2, -1)))[..., None]
        hold_to_oracle(subject, Problem(inputs.query, key, inputs.value))


@THEME.case(
    "future-of-another-tile",
    "rows before i keep every bit when keys and values from i on change, over many tiles",
    needs={"causal"},
    level="full",
    scores=600 * 600,
)
def _prefix(subject: Subject) -> None:
    inputs = problem(subject, Size(600, 600, 8, 5, B=1, H=1))
    other = problem(subject, Size(600, 600, 8, 5, B=1, H=1), seed=4)
    before = subject.call(*inputs, is_causal=True).out
    for i in (64, 127, 513):
        key, value = inputs.key.copy(), inputs.value.copy()
        key[..., i:, :], value[..., i:, :] = 9 * other.key[..., i:, :], other.value[..., i:, :]
        after = subject.call(inputs.query, key, value, is_causal=True).out
        same_bits(f"out before {i}", after[..., :i, :], before[..., :i, :])


@THEME.case(
    "scores-that-fall",
    "scores fall from 2,000 to -2,000 over 1,100 keys: what was summed first must not overflow",
    level="full",
    scores=5 * 1100,
)
def _falling(subject: Subject) -> None:
    inputs = problem(subject, Size(5, 1100, 1, 3, B=1, H=1))
    key = np.linspace(2000, -2000, 1100)[:, None].astype(inputs.key.dtype)
    hold_to_oracle(
        subject,
        Problem(np.ones_like(inputs.query), np.broadcast_to(key, inputs.key.shape), inputs.value),
    )
