"""Where the keys lie: views of a larger array, heads inside, and pages in any order."""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse.conformance._case import Theme
from attncourse.conformance._check import close
from attncourse.conformance._oracle import Size
from attncourse.conformance._tolerance import EPS
from attncourse.conformance.decoding._step import StepSubject, draw, expected, hold
from attncourse.conformance.layouts import ARRANGEMENTS

THEME = Theme("reads")


def _fill() -> None:
    for name, (how, arrange) in ARRANGEMENTS.items():

        def check(subject: StepSubject, arrange: Any = arrange) -> None:
            hold(subject, draw(subject, Size(1, 11, 4, 3, H=3)), arrange=arrange)

        THEME.add(name, f"{how}: the same answer", check, level="quick" if "sl" in name else "full")


_fill()


def _roomy(name: str, array: Any) -> Any:
    """Show the filled part of a cache whose other places hold NaN."""
    if name == "query":
        return array
    gap = array[:, :, :1] * float("nan")
    if isinstance(array, np.ndarray):
        return np.concatenate([array, gap, gap], 2)[:, :, : array.shape[2]]
    import torch

    return torch.cat([array, gap, gap], 2)[:, :, : array.shape[2]]


@THEME.case("cache-with-room", "a view of a cache that has room for more, NaN in the room")
def _room(subject: StepSubject) -> None:
    hold(subject, draw(subject, Size(1, 11, 4, 3, H=3)), arrange=_roomy)


@THEME.case("pages", "keys found through a table of shuffled pages", needs={"paged"})
def _pages(subject: StepSubject) -> None:
    for page in (1, 2, 3, 16):
        hold(subject, draw(subject, Size(1, 11, 4, 3)), page=page)


@THEME.case(
    "pages-filled-to-the-edge",
    "sequences that end just at, before and behind the edge of a page",
    needs={"paged"},
)
def _edges(subject: StepSubject) -> None:
    lengths = (7, 8, 9, 4)
    hold(subject, draw(subject, Size(1, 9, 4, 3, B=4), lengths), lengths, page=4)


@THEME.case(
    "shared-pages",
    "two sequences that begin alike may share the pages of their beginning",
    needs={"paged"},
)
def _shared(subject: StepSubject) -> None:
    inputs = draw(subject, Size(1, 9, 4, 3))
    inputs.key[1, :, :6], inputs.value[1, :, :6] = inputs.key[0, :, :6], inputs.value[0, :, :6]
    wanted, _ = expected(inputs, None, {})
    natives = subject.natives(inputs, page=3)
    natives["block_table"][1, :2] = natives["block_table"][0, :2]
    out = subject.step_native(natives, {}).out
    close("out", out, wanted, 1e3 * EPS[subject.dtype("float64")])


@THEME.case(
    "table-of-32-bits", "a table and lengths of 32-bit integers", needs={"paged"}, level="full"
)
def _int32(subject: StepSubject) -> None:
    lengths = (9, 4)
    inputs = draw(subject, Size(1, 9, 4, 3), lengths)
    natives = subject.natives(inputs, lengths)
    for name in ("block_table", "lengths"):
        array = natives[name]
        natives[name] = array.astype("int32") if isinstance(array, np.ndarray) else array.int()
    wanted, _ = expected(inputs, lengths, {})
    close("out", subject.step_native(natives, {}).out, wanted, 1e3 * EPS[subject.dtype("float64")])


@THEME.case(
    "wide-table",
    "a table with more columns than the longest sequence needs",
    needs={"paged"},
    level="full",
)
def _wide_table(subject: StepSubject) -> None:
    lengths = (2, 1)
    hold(subject, draw(subject, Size(1, 12, 4, 3), lengths), lengths, page=8)
    hold(subject, draw(subject, Size(1, 12, 4, 3), (12, 1)), (12, 1), page=2)
