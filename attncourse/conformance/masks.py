"""Masks of every shape that broadcasts, also where two axes are equally long.

A mask of one axis is a row of keys, also when there are as many queries. With batch, heads,
queries and keys all of one length, a function that goes by lengths takes the wrong axis.
"""

from __future__ import annotations

from itertools import count, product
from typing import Any

import numpy as np

from attncourse.conformance._case import Theme
from attncourse.conformance._oracle import Size, hold_to_oracle, problem
from attncourse.conformance._subject import Subject

THEME = Theme("masks")
# A cut of a (B, H, L, S) mask, and how its shape reads; from two axes on they need heads.
CUTS: dict[str, tuple[Any, str]] = {
    "S": (np.s_[0, 0, 0], "(S,): a row of keys"),
    "1xS": (np.s_[0, 0, :1], "(1, S): a row of keys"),
    "Lx1": (np.s_[0, 0, :, :1], "(L, 1): whole queries"),
    "LxS": (np.s_[0, 0], "(L, S): the same for all heads"),
    "Hx1x1": (np.s_[0, :, :1, :1], "(H, 1, 1): whole heads"),
    "Hx1xS": (np.s_[0, :, :1], "(H, 1, S): keys of each head"),
    "HxLx1": (np.s_[0, :, :, :1], "(H, L, 1): queries of each head"),
    "HxLxS": (np.s_[0], "(H, L, S): the same for all sequences"),
    "Bx1x1x1": (np.s_[:, :1, :1, :1], "(B, 1, 1, 1): whole sequences"),
    "Bx1x1xS": (np.s_[:, :1, :1], "(B, 1, 1, S): the padding of each sequence"),
    "Bx1xLx1": (np.s_[:, :1, :, :1], "(B, 1, L, 1): queries of each sequence"),
    "Bx1xLxS": (np.s_[:, :1], "(B, 1, L, S): each sequence its own"),
    "BxHx1xS": (np.s_[:, :, :1], "(B, H, 1, S): keys of each sequence and head"),
    "1xHxLxS": (np.s_[:1], "(1, H, L, S): each head its own"),
}
QUICK = ("S", "Bx1x1xS")
SHAPES = {
    "square": Size(3, 3, 2, 4, B=3, H=3),
    "ragged": Size(3, 6, 2, 4, B=4, H=2),
}


def _mask(kind: str, size: Size, cut: Any) -> np.ndarray:
    """Draw a mask and cut it; a cut that shows or hides everything is drawn again."""
    for seed in count():
        rng = np.random.default_rng([11, seed])
        shape = (size.B, size.H, size.L, size.S)
        seen = (rng.random(shape) < 0.6)[cut]
        if seen.any() and not seen.all():
            break
    return seen if kind == "bool_mask" else np.where(seen, rng.standard_normal(seen.shape), -np.inf)


def _fill() -> None:
    for kind, (name, (cut, says)), (shape, size) in product(
        ("bool_mask", "float_mask"), CUTS.items(), SHAPES.items()
    ):

        def check(subject: Subject, kind: str = kind, cut: Any = cut, size: Size = size) -> None:
            hold_to_oracle(subject, problem(subject, size), attn_mask=_mask(kind, size, cut))

        heads = {"batch"} if "H" in name or "B" in name else set()
        THEME.add(
            f"{kind.replace('_', '-')}-{name}-{shape}",
            f"a mask of shape {says}, sizes {shape}",
            check,
            needs={kind} | heads,
            level="quick" if name in QUICK else "full",
            scores=size.scores,
        )


_fill()


@THEME.case(
    "padding-of-9-sequences",
    "9 sequences of 9 lengths under a mask (B, 1, 1, S)",
    needs={"bool_mask", "batch"},
    scores=18 * 27,
)
def _padding(subject: Subject) -> None:
    inputs = problem(subject, Size(3, 9, 2, 3, B=9))
    lengths = np.arange(9, 0, -1)[:, None, None, None]
    hold_to_oracle(subject, inputs, attn_mask=np.arange(9) < lengths)


@THEME.case(
    "mask-of-thousandths",
    "a float mask keeps its digits in float32: 1/1000 added is 1/1000",
    needs={"float_mask"},
    scores=4 * 6 * 40,
)
def _fine(subject: Subject) -> None:
    inputs = problem(subject, Size(6, 40, 4, 3), gain=0.3)
    mask = np.random.default_rng(3).standard_normal((6, 40))
    for size in (1e-3, 1.0, 30.0):
        hold_to_oracle(subject, inputs, dtype="float32", attn_mask=size * mask)


@THEME.case(
    "mask-of-70000",
    "a float mask may hold 70,000, which float16 cannot",
    needs={"float_mask"},
    level="full",
)
def _large(subject: Subject) -> None:
    inputs = problem(subject, Size(3, 5, 4, 3))
    mask = np.zeros((3, 5))
    mask[:, 1], mask[:, 3] = 70_000.0, 69_996.0
    for dtype in ("float64", "float32"):
        hold_to_oracle(subject, inputs, dtype=dtype, attn_mask=mask)
        hold_to_oracle(subject, inputs, dtype=dtype, attn_mask=-mask)
