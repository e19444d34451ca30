"""The log-sum-exp by itself: of which scores it is taken, one question a case.

It is the number by which parts of a softmax are merged, and the backward pass makes its
weights from it. A wrong one leaves the output right, so nothing else shows it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse.conformance._backward import hold_lse_gradients
from attncourse.conformance._case import Theme
from attncourse.conformance._check import close
from attncourse.conformance._fractions import COUNTS, VALUES, keys_for, queries_for, room
from attncourse.conformance._modes import MODES
from attncourse.conformance._oracle import Problem, Size, hold_to_oracle, problem
from attncourse.conformance._subject import Subject

THEME = Theme("lse")
NAMED = {
    "softcap": "the log-sum-exp is of the scores after the softcap",
    "float-mask": "the log-sum-exp counts what a float mask adds",
    "bool-mask": "the log-sum-exp leaves out what a boolean mask hides",
    "alibi": "the log-sum-exp counts ALiBi's distances",
    "window": "the log-sum-exp leaves out keys before the window",
    "grouped": "with shared key heads, each query head has its own log-sum-exp",
    "dropout": "the log-sum-exp is that before dropout",
}


def _hold(subject: Subject, wanted: list[float], width: int, **options: Any) -> None:
    """Compare the lse of keys log 3, log 1, log 2, log 5 with logarithms of whole numbers."""
    queries = queries_for(len(wanted), width)
    options = {**options, "return_lse": True}
    answer = subject.call(queries, keys_for(width=width), np.array(VALUES), **options)
    close("lse", answer.lse, wanted, room(subject))


@THEME.case(
    "after-the-scale",
    "at width 4 the log-sum-exp is of scores divided by 2: log 11",
    needs={"lse"},
)
def _scaled(subject: Subject) -> None:
    _hold(subject, [np.log(sum(COUNTS))] * 2, width=4)


@THEME.case(
    "after-the-scale-argument",
    "scale=2 squares the odds: the log-sum-exp is log 39",
    needs={"lse", "scale"},
)
def _scale_argument(subject: Subject) -> None:
    _hold(subject, [np.log(sum(n * n for n in COUNTS))] * 2, width=1, scale=2.0)


@THEME.case(
    "causal",
    "the log-sum-exp of row i counts keys 0 … i: log 3, log 4, log 6, log 11",
    needs={"lse", "causal"},
)
def _causal(subject: Subject) -> None:
    _hold(subject, [*np.log(np.cumsum(COUNTS))], width=4, is_causal=True)


@THEME.case(
    "bottom-right-empty-rows",
    "with L > S the first rows see nothing: their log-sum-exp is -inf, not 0",
    needs={"lse", "causal", "bottom_right"},
)
def _bottom_right(subject: Subject) -> None:
    wanted = [-np.inf, -np.inf, *np.log(np.cumsum(COUNTS))]
    _hold(subject, wanted, width=1, is_causal=True, causal_align="bottom_right")


@THEME.case("no-keys", "the log-sum-exp of no keys at all is -inf", needs={"lse"}, level="full")
def _no_keys(subject: Subject) -> None:
    hold_to_oracle(subject, problem(subject, Size(3, 0, 4, 2)), return_lse=True)


def _fill() -> None:
    """Add each way of calling with the log-sum-exp asked for as well."""
    for mode in MODES:
        if "lse" in MODES[mode].needs:
            continue

        def check(subject: Subject, mode: str = mode) -> None:
            inputs = _problem(subject, mode)
            options = {**MODES[mode].options(inputs), "return_lse": True}
            hold_to_oracle(subject, inputs, compare=("lse",), **options)

        THEME.add(
            f"with-{mode}",
            NAMED.get(mode, f"the log-sum-exp, {mode}: the oracle's answer"),
            check,
            needs=MODES[mode].needs | {"lse"},
            level="quick" if mode in NAMED else "full",
            scores=8 * 9 * 13,
        )


def _fill_backward() -> None:
    """Add the ways of calling whose steps stand between the log-sum-exp and the inputs."""
    for mode in (
        "bool-mask",
        "bottom-right",
        "softcap",
        "alibi",
        "grouped",
        "dropout",
        "everything",
    ):

        def check(subject: Subject, mode: str = mode) -> None:
            inputs = _problem(subject, mode)
            hold_lse_gradients(subject, inputs, **MODES[mode].options(inputs))

        THEME.add(
            f"backward-{mode}",
            f"a log-sum-exp that requires gradients gives right ones, {mode}",
            check,
            needs=MODES[mode].needs | {"lse", "grad", "torch"},
            level="full",
            scores=8 * 9 * 13,
        )


def _problem(subject: Subject, mode: str) -> Problem:
    heads = {"H": 4, "Hkv": 2} if "gqa" in MODES[mode].needs else {}
    return problem(subject, Size(9, 13, 4, 3, **heads))


_fill()
_fill_backward()
