"""What single features promise beside their numbers: dropout, and combinations by AND."""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse import dropout
from attncourse.conformance._case import Theme
from attncourse.conformance._check import close, same_bits, true
from attncourse.conformance._modes import Options, float_mask, slopes
from attncourse.conformance._oracle import Problem, Size, hold_to_oracle, problem
from attncourse.conformance._subject import Subject
from attncourse.conformance._tolerance import EPS

THEME = Theme("features")


def _weights(subject: Subject, inputs: Problem, **options: Any) -> np.ndarray:
    """Read the weights themselves: with unit vectors as values, out is the weights."""
    size = inputs.key.shape[-2]
    eye = np.broadcast_to(np.eye(size), (*inputs.key.shape[:-1], size)).copy()
    return subject.call(inputs.query, inputs.key, eye, **options).out


@THEME.case(
    "dropout-zero-or-scaled-up",
    "each weight is dropped, or divided by 1 - p",
    needs={"dropout"},
    scores=4 * 64 * 60,
)
def _zero_or_scaled(subject: Subject) -> None:
    inputs = problem(subject, Size(64, 60, 8))
    weights, dropped = _weights(subject, inputs), _weights(subject, inputs, dropout_p=0.3)
    gone = dropped == 0
    close("kept weights", dropped[~gone], weights[~gone] / 0.7, 1e3 * EPS[subject.dtype("float64")])
    share, spread = gone.mean(), (0.3 * 0.7 / gone.size) ** 0.5
    true(abs(share - 0.3) < 6 * spread, "share of dropped weights", "about 0.3", f"{share:.3f}")


@THEME.case(
    "dropout-rows-differ",
    "no two queries, heads or sequences share a dropout mask",
    needs={"dropout"},
)
def _rows_differ(subject: Subject) -> None:
    inputs = problem(subject, Size(16, 60, 8))
    gone = _weights(subject, inputs, dropout_p=0.5) == 0
    rows = gone.reshape(-1, 60)
    distinct = len(np.unique(rows, axis=0))
    true(distinct == len(rows), "different dropout rows", str(len(rows)), distinct)


@THEME.case(
    "dropout-drawn-afresh", "without a seed, two calls drop different weights", needs={"dropout"}
)
def _fresh(subject: Subject) -> None:
    inputs = problem(subject, Size(16, 60, 8))
    first, second = (_weights(subject, inputs, dropout_p=0.5) == 0 for _ in range(2))
    true((first != second).any(), "second dropout mask", "another than the first", "the same")


@THEME.case(
    "dropout-mask-of-the-seed",
    "the seed names the mask: the one of every other rung",
    needs={"dropout", "dropout_seed"},
    scores=4 * 33 * 70,
)
def _seeded(subject: Subject) -> None:
    inputs = problem(subject, Size(33, 70, 8))
    shape = (*inputs.query.shape[:-1], 70)
    for seed in (0, 1, 2**33 + 5, 2**64 - 1):
        gone = _weights(subject, inputs, dropout_p=0.4, dropout_seed=seed) == 0
        wanted = ~dropout.keep(np.empty(shape), 0.4, seed)
        same_bits(f"dropped weights, seed {seed}", gone, wanted)


@THEME.case(
    "dropout-keeps-lse",
    "the log-sum-exp is that of the softmax before dropout",
    needs={"dropout", "dropout_seed", "lse"},
)
def _dropout_lse(subject: Subject) -> None:
    inputs = problem(subject, Size(17, 20, 8))
    options: Options = {"dropout_seed": 3, "return_lse": True}
    hold_to_oracle(subject, inputs, dropout_p=0.5, **options)


@THEME.case(
    "dropout-next-to-1",
    "p = 0.99 keeps about one weight in a hundred, times 100",
    needs={"dropout", "dropout_seed"},
    level="full",
)
def _nearly_all(subject: Subject) -> None:
    hold_to_oracle(subject, problem(subject, Size(17, 40, 8)), dropout_p=0.99, dropout_seed=9)


@THEME.case(
    "mask-window-and-causal",
    "everything that hides combines by AND",
    needs={"causal", "window", "float_mask"},
)
def _all_hide(subject: Subject) -> None:
    inputs = problem(subject, Size(17, 20, 8))
    hold_to_oracle(subject, inputs, attn_mask=float_mask(inputs), is_causal=True, window_size=6)


@THEME.case(
    "alibi-two-sided",
    "without a causal mask, keys ahead are as far as keys behind",
    needs={"alibi", "batch"},
)
def _two_sided(subject: Subject) -> None:
    inputs = problem(subject, Size(17, 17, 8))
    hold_to_oracle(subject, inputs, alibi_slopes=slopes(inputs))


@THEME.case(
    "alibi-a-sequence",
    "slopes of shape (B, H): each sequence its own",
    needs={"alibi", "batch"},
    level="full",
)
def _slopes_each(subject: Subject) -> None:
    inputs = problem(subject, Size(17, 20, 8))
    hold_to_oracle(subject, inputs, alibi_slopes=np.array([[0.1, 0.2], [0.3, 0.4]]))


@THEME.case(
    "alibi-bottom-right-alone",
    "causal_align pins ALiBi's distance without is_causal too",
    needs={"alibi", "batch", "bottom_right"},
    level="full",
)
def _slopes_pinned(subject: Subject) -> None:
    inputs = problem(subject, Size(7, 20, 8))
    options: Options = {"causal_align": "bottom_right"}
    hold_to_oracle(subject, inputs, alibi_slopes=slopes(inputs), **options)


@THEME.case(
    "grouped-with-mask",
    "a mask of all query heads over shared key heads",
    needs={"gqa", "batch", "float_mask"},
)
def _grouped_mask(subject: Subject) -> None:
    inputs = problem(subject, Size(7, 20, 8, 5, H=6, Hkv=2))
    hold_to_oracle(subject, inputs, attn_mask=float_mask(inputs), enable_gqa=True)


@THEME.case("negative-scale", "scale=-0.5 prefers the keys that match least", needs={"scale"})
def _negative(subject: Subject) -> None:
    hold_to_oracle(subject, problem(subject, Size(17, 20, 8)), scale=-0.5)


@THEME.case(
    "large-softcap",
    "softcap=60 still bends scores near 100",
    needs={"softcap"},
    level="full",
)
def _large_cap(subject: Subject) -> None:
    hold_to_oracle(subject, problem(subject, Size(17, 20, 8), gain=6.0), softcap=60.0)


@THEME.case(
    "tiny-softcap", "softcap=0.01 makes all weights nearly equal", needs={"softcap"}, level="full"
)
def _tiny_cap(subject: Subject) -> None:
    hold_to_oracle(subject, problem(subject, Size(17, 20, 8), gain=30.0), softcap=0.01)
