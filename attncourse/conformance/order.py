"""Cases with exact rational answers: what is done to the scores, and in which order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from attncourse import dropout
from attncourse.conformance._case import Theme
from attncourse.conformance._check import close
from attncourse.conformance._fractions import (
    COUNTS,
    VALUES,
    hold,
    hold_heads,
    keys_for,
    mean,
    queries_for,
    room,
)
from attncourse.conformance._modes import Options
from attncourse.conformance._subject import Subject

THEME = Theme("order")


@THEME.case("float-mask", "adding log 2 doubles a key's odds, -inf hides it", needs={"float_mask"})
def _float_mask(subject: Subject) -> None:
    odds = np.array([[2, 1, 1, 1], [1, 0, 3, 1]], float)
    with np.errstate(divide="ignore"):
        mask = np.log(odds)
    rows = [mean([Fraction(o) * n for o, n in zip(row, COUNTS, strict=True)]) for row in odds]
    hold(subject, rows, attn_mask=mask)


@THEME.case(
    "float-mask-after-scale",
    "the mask is added to scaled scores: scale=0 leaves the mask alone",
    needs={"float_mask", "scale"},
)
def _float_mask_after_scale(subject: Subject) -> None:
    hold(subject, [mean([2, 1, 1, 4])], attn_mask=np.log([[2.0, 1.0, 1.0, 4.0]]), scale=0.0)


@THEME.case(
    "softcap", "c · tanh(score / c), undone here by c · atanh(log n / c)", needs={"softcap"}
)
def _softcap(subject: Subject) -> None:
    cap = 4.0
    keys = cap * np.arctanh(keys_for() / cap)
    hold(subject, [mean(COUNTS)] * 2, keys=keys, softcap=cap)


@THEME.case(
    "softcap-after-float-mask",
    "the softcap is taken of score plus mask",
    needs={"softcap", "float_mask"},
)
def _softcap_order(subject: Subject) -> None:
    cap, mask = 3.0, np.array([[0.5, -1.0, 0.25, 0.0]])
    keys = cap * np.arctanh(keys_for() / cap) - mask.T
    hold(subject, [mean(COUNTS)], keys=keys, softcap=cap, attn_mask=mask)


@THEME.case(
    "softcap-before-bool-mask",
    "a hidden key stays hidden under a softcap",
    needs={"softcap", "bool_mask"},
)
def _softcap_then_mask(subject: Subject) -> None:
    cap, mask = 2.0, np.array([[1, 0, 0, 1], [0, 0, 0, 0]], bool)
    keys = cap * np.arctanh(keys_for([3, 1, 2, 5]) / cap)
    hold(subject, [mean([3, 0, 0, 5]), [0, 0]], keys=keys, softcap=cap, attn_mask=mask)


@THEME.case(
    "softcap-and-minus-infinity",
    "-inf in a float mask hides, also under a softcap",
    needs={"softcap", "float_mask"},
)
def _softcap_minus_infinity(subject: Subject) -> None:
    cap, mask = 2.0, np.array([[0.0, -np.inf, -np.inf, 0.0]])
    keys = cap * np.arctanh(keys_for([3, 1, 2, 5]) / cap)
    hold(subject, [mean([3, 0, 0, 5])], keys=keys, softcap=cap, attn_mask=mask)


@THEME.case("alibi", "slope log 2: each step of distance halves the odds", needs={"alibi", "batch"})
def _alibi(subject: Subject) -> None:
    slopes = np.log([2.0, 4.0])
    odds = [[[Fraction(1, b ** abs(i - j)) for j in range(4)] for i in range(3)] for b in (2, 4)]
    rows = [
        [mean([o * n for o, n in zip(row, COUNTS, strict=True)]) for row in head] for head in odds
    ]
    both = np.stack([keys_for()] * 2), np.stack([np.array(VALUES, float)] * 2)
    hold_heads(subject, rows, *both, alibi_slopes=slopes)


@THEME.case(
    "alibi-bottom-right",
    "distance 0 lies on the diagonal that causal_align chose",
    needs={"alibi", "batch", "causal", "bottom_right"},
)
def _alibi_bottom_right(subject: Subject) -> None:
    rows = [
        mean([n * Fraction(1, 2 ** (i + 2 - j)) if j <= i + 2 else 0 for j, n in enumerate(COUNTS)])
        for i in range(2)
    ]
    options: Options = {"is_causal": True, "causal_align": "bottom_right"}
    one = keys_for()[None], np.array(VALUES, float)[None]
    hold_heads(subject, [rows], *one, alibi_slopes=np.log([2.0]), **options)


@THEME.case(
    "grouped-heads",
    "key/value head j serves query heads 2j and 2j + 1",
    needs={"gqa", "batch"},
)
def _grouped(subject: Subject) -> None:
    counts = [COUNTS, (1, 4, 4, 1)]
    keys = np.stack([keys_for(n) for n in counts])
    values = np.stack([np.array(VALUES, float), 10 + np.array(VALUES, float)])
    rows = [mean(counts[h // 2], values[h // 2].astype(int).tolist()) for h in range(4)]
    hold_heads(subject, [[row] * 2 for row in rows], keys, values, enable_gqa=True)


@THEME.case("lse", "log-sum-exp is the natural log of 3 + 1 + 2 + 5", needs={"lse"})
def _lse(subject: Subject) -> None:
    answer = subject.call(queries_for(2), keys_for(), np.array(VALUES), return_lse=True)
    close("lse", answer.lse, np.log([sum(COUNTS)] * 2), room(subject))


@THEME.case(
    "lse-of-what-is-seen",
    "log-sum-exp counts visible keys only, and is -inf where there are none",
    needs={"lse", "bool_mask"},
)
def _lse_masked(subject: Subject) -> None:
    mask = np.array([[1, 0, 0, 1], [0, 0, 0, 0]], bool)
    options: Options = {"attn_mask": mask, "return_lse": True}
    answer = subject.call(queries_for(2), keys_for(), np.array(VALUES), **options)
    close("lse", answer.lse, [np.log(8), -np.inf], room(subject))


@THEME.case(
    "dropout",
    "p = 1/2: the dropped weights are 0, the others doubled, and nothing is shared anew",
    needs={"dropout", "dropout_seed"},
)
def _dropout(subject: Subject) -> None:
    kept = dropout.keep(np.empty((3, 4)), 0.5, 11).tolist()
    values = np.array(VALUES)
    rows = [
        [
            float(
                Fraction(
                    sum(2 * n * k * int(v) for n, k, v in zip(COUNTS, row, column, strict=True)), 11
                )
            )
            for column in values.T
        ]
        for row in kept
    ]
    hold(subject, rows, dropout_p=0.5, dropout_seed=11)
