"""Ways to call attention: each makes its arguments, which say what features they need.

Masks are drawn so that some rows see nothing, some keys are seen by nobody, and heads and
batches differ; a wrong broadcast then shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncourse.conformance._oracle import Problem, score_shape
from attncourse.features import features_of

Options = dict[str, Any]


@dataclass(frozen=True)
class Mode:
    """One way to call: the arguments for given inputs, and the features that they ask for."""

    options: Callable[[Problem], Options]

    @property
    def needs(self) -> frozenset[str]:
        """What a function must have for these arguments; some of them belong to heads."""
        asked = self.options(_SMALL)
        needs = features_of(asked) | ({"scale"} if "scale" in asked else set())
        return frozenset(needs | ({"batch"} if needs & {"alibi", "gqa"} else set()))


_SMALL = Problem(*(np.ones((1, 2, 3, 4)) for _ in range(3)))


def _rng(inputs: Problem) -> np.random.Generator:
    return np.random.default_rng([7, *inputs.query.shape[-2:], inputs.key.shape[-2]])


def bool_mask(inputs: Problem) -> np.ndarray:
    """Draw a mask with an empty row and a key that nobody sees, where there is room."""
    mask = _rng(inputs).random(score_shape(inputs)) < 0.6
    if mask.shape[-2] > 2:
        mask[..., 1, :] = False
    if mask.shape[-1] > 2:
        mask[..., 2] = False
    return mask


def float_mask(inputs: Problem) -> np.ndarray:
    """Draw numbers to add, -inf where `bool_mask` hides."""
    numbers = _rng(inputs).standard_normal(score_shape(inputs))
    return np.where(bool_mask(inputs), numbers, -np.inf)


def slopes(inputs: Problem) -> np.ndarray:
    """Return one slope a head, all different."""
    return 0.5 / (1.0 + np.arange(inputs.query.shape[-3]))


def _set(**options: Any) -> Mode:
    return Mode(lambda _: dict(options))


MODES = {
    "plain": _set(),
    "causal": _set(is_causal=True),
    "bottom-right": _set(is_causal=True, causal_align="bottom_right"),
    "window": _set(is_causal=True, window_size=5),
    "window-bottom-right": _set(is_causal=True, window_size=3, causal_align="bottom_right"),
    "bool-mask": Mode(lambda i: {"attn_mask": bool_mask(i)}),
    "float-mask": Mode(lambda i: {"attn_mask": float_mask(i)}),
    "mask-and-causal": Mode(lambda i: {"attn_mask": bool_mask(i), "is_causal": True}),
    "softcap": _set(softcap=1.5),
    "alibi": Mode(lambda i: {"alibi_slopes": slopes(i)}),
    "grouped": _set(enable_gqa=True),
    "lse": _set(return_lse=True),
    "dropout": _set(dropout_p=0.3, dropout_seed=2**40 + 7),
    "everything": Mode(
        lambda i: {
            "attn_mask": float_mask(i),
            "is_causal": True,
            "causal_align": "bottom_right",
            "window_size": 7,
            "softcap": 2.0,
            "alibi_slopes": slopes(i),
            "enable_gqa": True,
            "dropout_p": 0.25,
            "dropout_seed": 5,
            "return_lse": True,
            "scale": 0.7,
        },
    ),
}
# What works together, two at a time, on the rungs that have both.
MODES["causal-float-mask"] = Mode(lambda i: {"attn_mask": float_mask(i), "is_causal": True})
MODES["causal-grouped"] = _set(enable_gqa=True, is_causal=True)
MODES["causal-alibi"] = Mode(lambda i: {"alibi_slopes": slopes(i), "is_causal": True})
MODES["causal-softcap"] = _set(softcap=1.5, is_causal=True)
MODES["causal-lse"] = _set(return_lse=True, is_causal=True)
MODES["causal-dropout"] = _set(dropout_p=0.3, dropout_seed=3, is_causal=True)
