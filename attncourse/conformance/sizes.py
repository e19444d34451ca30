"""One axis at a time made large: what is right for 64 keys may stop at 1,024 or at 65,535.

A buffer of fixed size, a counter of 16 bits and a grid of programs each have an end, and a
small test lies before all of them. Here one axis is long and the others are short, so a case
costs milliseconds. Where even the oracle would take long, a small problem is repeated along
the axis: seven rows are answered once, and each of the 70,007 must be one of them.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from attncourse import reference
from attncourse.conformance._backward import NAMES, gradients, hold_gradients, plain_gradients
from attncourse.conformance._case import Theme
from attncourse.conformance._check import LeftOut, close
from attncourse.conformance._modes import MODES, Options
from attncourse.conformance._oracle import Problem, Size, hold_to_oracle, problem
from attncourse.conformance._subject import Subject
from attncourse.conformance._tolerance import EPS, rounding

THEME = Theme("sizes")
GRAD = frozenset({"grad", "torch"})
# No tile and no power of two is a multiple of 7: a row that is read from elsewhere shows.
PERIOD = 7
# Numbers that are added one after the other round once each.
ONE_BY_ONE = 1 / 60
# An interpreted kernel pays for a whole tile, however few scores of it a head needs.
TILE = 512
MANY = 10_001 * PERIOD


def _repeated(array: np.ndarray, axis: int, count: int) -> np.ndarray:
    """Repeat an array along an axis until it holds `count` rows there."""
    return np.take(array, np.arange(count) % array.shape[axis], axis)


def _affordable(subject: Subject, axis: str) -> None:
    """Leave a case out if it would take long, or fill the memory, by a cost that is squared.

    A right function may hold a matrix of keys by keys, and no machine holds 70,007 by 70,007.
    """
    size = Size(4096, 3, 1, 2, B=1, H=1) if axis == "queries" else Size(2, 4096, 1, 2, B=1, H=1)
    inputs, seconds = problem(subject, size), []
    for _ in range(3):
        start = time.process_time()  # not of the clock: the machine may be busy
        subject.call(*inputs)
        seconds.append(time.process_time() - start)
    if min(seconds) * (MANY / 4096) ** 2 > 20:
        raise LeftOut


@THEME.case("1100-queries", "1,100 queries: the oracle's answer", scores=1100 * 3)
def _queries(subject: Subject) -> None:
    hold_to_oracle(subject, problem(subject, Size(1100, 3, 2, 3, B=1, H=1)))


@THEME.case("70007-queries", "70,007 queries: the oracle's answer", level="full", scores=3 * MANY)
def _many_queries(subject: Subject) -> None:
    _affordable(subject, "queries")
    small = problem(subject, Size(PERIOD, 3, 1, 2, B=1, H=1))
    inputs = Problem(_repeated(small.query, -2, MANY), small.key, small.value)
    wanted = _repeated(reference.attention(*small), -2, MANY)
    allowed = rounding(subject.dtype("float64"), small, {})[0]
    close("out", subject.call(*inputs).out, wanted, allowed)


@THEME.case(
    "70007-queries-backward",
    "the gradients of 70,007 queries, and of the keys that they see",
    needs=GRAD,
    level="full",
    scores=3 * MANY,
)
def _many_queries_backward(subject: Subject) -> None:
    _affordable(subject, "queries")
    small = problem(subject, Size(PERIOD, 3, 1, 2, B=1, H=1))
    upstream = np.random.default_rng(5).standard_normal((*small.query.shape[:-1], 2))
    wanted = plain_gradients(small, upstream, "float64", {})
    wanted["query"] = _repeated(wanted["query"], -2, MANY)
    wanted["key"], wanted["value"] = (wanted[n] * MANY / PERIOD for n in ("key", "value"))
    inputs = Problem(_repeated(small.query, -2, MANY), small.key, small.value)
    came = gradients(subject, inputs, _repeated(upstream, -2, MANY))
    for name in NAMES:
        allowed = 1e3 * EPS[subject.dtype("float64")] * (1 if name == "query" else MANY)
        close(f"gradient of {name}", came[name], wanted[name], allowed)


@THEME.case("70007-keys", "70,007 keys: the oracle's answer", level="full", scores=2 * MANY)
def _many_keys(subject: Subject) -> None:
    _affordable(subject, "keys")
    options: Options = {"return_lse": True} if subject.has("lse") else {}
    inputs = problem(subject, Size(2, MANY, 1, 2, B=1, H=1))
    hold_to_oracle(subject, inputs, factor=ONE_BY_ONE * MANY, **options)


@THEME.case(
    "70007-keys-backward",
    "the gradients of 70,007 keys",
    needs=GRAD,
    level="full",
    scores=2 * MANY,
)
def _many_keys_backward(subject: Subject) -> None:
    _affordable(subject, "keys")
    hold_gradients(subject, problem(subject, Size(2, MANY, 1, 2, B=1, H=1)))


def _many_heads(subject: Subject, batch: int, heads: int) -> tuple[Problem, Problem, np.ndarray]:
    """Make a small problem of 7 heads, the same many times over, and a factor for each head."""
    small = problem(subject, Size(1, 2, 1, 2, B=1, H=PERIOD))
    large = small.map(lambda a: np.repeat(_repeated(a, 1, heads), batch, 0))
    factor = 1 + np.arange(batch * heads).reshape(batch, heads, 1, 1) / (batch * heads)
    return small, Problem(large.query, large.key, factor * large.value), factor


def _fill_heads() -> None:
    """Add batches of many sequences and heads: the last is past any limit of a grid."""
    for batch, heads, level in ((9, 12, "quick"), (300, 3, "full"), (2, 300, "full")):
        _add_heads(batch, heads, level)
    _add_heads(257, 257, "full")


def _add_heads(batch: int, heads: int, level: str) -> None:
    def forward(subject: Subject) -> None:
        small, large, factor = _many_heads(subject, batch, heads)
        wanted = factor * _repeated(reference.attention(*small), 1, heads)
        allowed = rounding(subject.dtype("float64"), large, {})[0]
        close("out", subject.call(*large).out, wanted, allowed)

    def backward(subject: Subject) -> None:
        small, large, factor = _many_heads(subject, batch, heads)
        upstream = np.random.default_rng(6).standard_normal((1, PERIOD, 1, 2))
        wanted = plain_gradients(small, upstream, "float64", {})
        pushed = np.repeat(_repeated(upstream, 1, heads), batch, 0)
        came = gradients(subject, large, pushed)
        for name in NAMES:
            times = np.ones_like(factor) if name == "value" else factor
            right = times * _repeated(wanted[name], 1, heads)
            allowed = 1e4 * EPS[subject.dtype("float64")]
            close(f"gradient of {name}", came[name], right, allowed)

    says, scores = f"{batch} sequences of {heads} heads", TILE * batch * heads
    name = f"{batch}-sequences-of-{heads}-heads"
    settings: dict[str, Any] = {"scores": scores, "needs": {"batch"}}
    THEME.add(name, f"{says}: the oracle's answer", forward, level=level, **settings)
    settings["needs"] = GRAD | {"batch"}
    THEME.add(
        f"{name}-backward",
        f"{says}: the gradients of plain PyTorch",
        backward,
        level="full",
        **settings,
    )


_fill_heads()

WIDTHS = ((300, 290), (129, 129), (192, 64), (256, 256), (513, 3), (5, 600), (1030, 1030))


def _fill_widths() -> None:
    """Add widths past those that kernels are tuned for; the first is in the quick level."""
    for width, value_width in WIDTHS:
        size = Size(3, 4, width, value_width, B=1)

        def forward(subject: Subject, size: Size = size) -> None:
            hold_to_oracle(subject, problem(subject, size))

        def backward(subject: Subject, size: Size = size) -> None:
            hold_gradients(subject, problem(subject, size))

        name, says = f"width-{width}-v{value_width}", f"keys {width} and values {value_width} wide"
        level = "quick" if width == 300 else "full"
        THEME.add(name, f"{says}: the oracle's answer", forward, level=level, scores=24)
        if width in (300, 1030):
            says = f"{says}: the gradients of plain PyTorch"
            THEME.add(f"{name}-backward", says, backward, needs=GRAD, level="full", scores=24)


_fill_widths()

GROUPS = ((4, 4), (8, 2), (8, 1), (5, 1), (12, 2), (14, 2), (32, 2))


def _fill_groups() -> None:
    """Add groups of 1, 4, 8, 5, 6, 7 and 16 query heads to a key head."""
    for heads, kv_heads in GROUPS:
        size = Size(3, 5, 2, 3, B=1, H=heads, Hkv=kv_heads)

        def forward(subject: Subject, size: Size = size) -> None:
            hold_to_oracle(subject, problem(subject, size), enable_gqa=True)

        def backward(subject: Subject, size: Size = size) -> None:
            hold_gradients(subject, problem(subject, size), enable_gqa=True)

        group = heads // kv_heads
        says = f"{group} query heads share a key head"
        level = "quick" if group in (4, 8) else "full"
        needs, scores = {"gqa", "batch"}, size.scores
        THEME.add(
            f"groups-of-{group}",
            f"{says}: the oracle's answer",
            forward,
            needs=needs,
            level=level,
            scores=scores,
        )
        if group in (4, 16):
            name, says = f"groups-of-{group}-backward", f"{says}: the gradients of plain PyTorch"
            THEME.add(name, says, backward, needs=needs | GRAD, level="full", scores=scores)


_fill_groups()

MODES_HERE = (
    "bottom-right",
    "window-bottom-right",
    "bool-mask",
    "float-mask",
    "alibi",
    "softcap",
    "causal-lse",
    "dropout",
    "everything",
)
BACKWARD = ("bottom-right", "bool-mask", "everything")


def _options(mode: str, inputs: Problem) -> Options:
    """Make ALiBi so gentle that keys far away still count."""
    options = MODES[mode].options(inputs)
    if "alibi_slopes" in options:
        gentle = 8 / (inputs.query.shape[-2] + inputs.key.shape[-2])
        options["alibi_slopes"] = options["alibi_slopes"] * gentle
    return options


def _fill_modes() -> None:
    """Add each way of calling with many keys, many queries, many heads and many sequences."""
    for mode in MODES_HERE:
        grouped = "gqa" in MODES[mode].needs
        one = {"B": 1, "H": 2 if grouped else 1, "Hkv": 1}
        for name, size in {
            "8201-keys": Size(4, 8201, 1, 2, **one),
            "2100-queries": Size(2100, 3, 1, 2, **one),
            "34-heads": Size(3, 5, 2, 3, B=2, H=34, Hkv=17 if grouped else 34),
            "35-sequences": Size(3, 5, 2, 3, B=35, H=2, Hkv=1 if grouped else 2),
        }.items():

            def forward(subject: Subject, mode: str = mode, size: Size = size) -> None:
                inputs = problem(subject, size)
                options = _options(mode, inputs)
                hold_to_oracle(subject, inputs, factor=1 + ONE_BY_ONE * size.S, **options)

            def backward(subject: Subject, mode: str = mode, size: Size = size) -> None:
                inputs = problem(subject, size)
                hold_gradients(subject, inputs, **_options(mode, inputs))

            several = {"batch"} if size.B > 1 else set()
            needs = MODES[mode].needs | several
            says = f"{name.replace('-', ' ')}, {mode}"
            scores = max(size.scores, TILE * size.B * size.H)
            settings: dict[str, Any] = {"needs": needs, "level": "full", "scores": scores}
            THEME.add(f"{name}-{mode}", f"{says}: the oracle's answer", forward, **settings)
            if mode in BACKWARD:
                settings["needs"] = needs | GRAD
                says = f"{says}: the gradients of plain PyTorch"
                THEME.add(f"{name}-{mode}-backward", says, backward, **settings)


_fill_modes()
