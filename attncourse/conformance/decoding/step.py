"""What a decoding step answers: exact means, shared heads, several queries, every option."""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse.conformance._case import Theme
from attncourse.conformance._check import close, true
from attncourse.conformance._fractions import (
    COUNTS,
    VALUES,
    keys_for,
    mean,
    queries_for,
    room,
)
from attncourse.conformance._oracle import Problem, Size
from attncourse.conformance.decoding._step import StepSubject, draw, hold

THEME = Theme("step")


def _exact(subject: StepSubject, width: int, **options: Any) -> Any:
    """Ask about keys log 3, log 1, log 2, log 5; two sequences alike."""
    arrays = queries_for(1, width), keys_for(width=width), np.array(VALUES, float)
    inputs = Problem(*(np.stack([array[None]] * 2) for array in arrays))
    return subject.step(inputs, **options)


@THEME.case("log-of-integers", "scores log 3, log 1, log 2, log 5: weights 3, 1, 2, 5 of 11")
def _integers(subject: StepSubject) -> None:
    wanted = np.broadcast_to(mean(COUNTS), (2, 1, 1, 2))
    close("out", _exact(subject, 1).out, wanted, room(subject))


@THEME.case("default-scale", "at width 4 scores are divided by 2")
def _width(subject: StepSubject) -> None:
    wanted = np.broadcast_to(mean(COUNTS), (2, 1, 1, 2))
    close("out", _exact(subject, 4).out, wanted, room(subject))


@THEME.case("one-key", "with a single key in the cache its value is the answer")
def _one_key(subject: StepSubject) -> None:
    hold(subject, draw(subject, Size(1, 1, 4, 3)))


@THEME.case("one-query", "one new query, 17 keys, several heads and sequences")
def _one_query(subject: StepSubject) -> None:
    hold(subject, draw(subject, Size(1, 17, 8, 5, B=3, H=3)))


@THEME.case(
    "several-queries",
    "of 4 new queries the last sees all 17 keys, the one before all but one, and so on",
    needs={"several"},
)
def _several(subject: StepSubject) -> None:
    hold(subject, draw(subject, Size(4, 17, 8, 5)))


@THEME.case("whole-prompt", "as many queries as keys: the usual causal mask", needs={"several"})
def _prompt(subject: StepSubject) -> None:
    for length in (1, 2, 9, 33):
        hold(subject, draw(subject, Size(length, length, 4, 3)))


@THEME.case(
    "more-queries-than-keys",
    "queries that stand before the first key see nothing and give 0",
    needs={"several"},
    level="full",
)
def _more_queries(subject: StepSubject) -> None:
    hold(subject, draw(subject, Size(5, 3, 4, 3)))


@THEME.case("shared-heads", "key head j serves query heads 2j and 2j + 1", needs={"gqa"})
def _grouped(subject: StepSubject) -> None:
    hold(subject, draw(subject, Size(1, 9, 4, 3, H=6, Hkv=3)))


def _fill_groups() -> None:
    for heads, kv_heads in ((6, 2), (8, 2), (8, 1), (12, 2), (32, 4)):

        def check(subject: StepSubject, heads: int = heads, kv_heads: int = kv_heads) -> None:
            hold(subject, draw(subject, Size(1, 9, 4, 3, H=heads, Hkv=kv_heads)))
            if subject.has("several"):
                hold(subject, draw(subject, Size(3, 9, 4, 3, H=heads, Hkv=kv_heads)))

        group = heads // kv_heads
        says = f"{group} query heads share a key head, {kv_heads} key heads"
        level = "quick" if group == 4 else "full"
        name = f"groups-of-{group}-over-{kv_heads}"
        THEME.add(name, says, check, needs={"gqa"}, level=level)


_fill_groups()

OPTIONS: dict[str, tuple[str, dict[str, Any], str]] = {
    "scale": ("scale", {"scale": 0.7}, "scale=0.7 in place of 1 / sqrt(E)"),
    "scale-negative": ("scale", {"scale": -0.5}, "scale=-0.5 prefers the worst match"),
    "scale-zero": ("scale", {"scale": 0.0}, "scale=0 makes all keys equal"),
    "window-1": ("window", {"window_size": 1}, "a window of 1: only the newest key"),
    "window-5": ("window", {"window_size": 5}, "a window of 5: the five newest keys"),
    "window-99": ("window", {"window_size": 99}, "a window wider than the cache hides nothing"),
    "softcap": ("softcap", {"softcap": 1.5}, "a softcap of 1.5"),
    "alibi": ("alibi", {"alibi_slopes": np.array([0.1, 0.3])}, "distances count from the end"),
}


def _fill_options() -> None:
    for name, (need, options, says) in OPTIONS.items():

        def check(subject: StepSubject, options: dict[str, Any] = options) -> None:
            for num_queries in (1, 4) if subject.has("several") else (1,):
                hold(subject, draw(subject, Size(num_queries, 17, 4, 3)), **options)

        THEME.add(name, f"{says}: the oracle's answer", check, needs={need})

        def check_lse(subject: StepSubject, options: dict[str, Any] = options) -> None:
            inputs = draw(subject, Size(1, 17, 4, 3))
            hold(subject, inputs, compare=("lse",), return_lse=True, **options)

        says = f"the log-sum-exp, {says}"
        THEME.add(f"lse-{name}", says, check_lse, needs={need, "lse"}, level="full")


_fill_options()


@THEME.case("lse", "the log-sum-exp is in nats, of scaled scores: log 11", needs={"lse"})
def _lse(subject: StepSubject) -> None:
    for width in (1, 4):
        lse = _exact(subject, width, return_lse=True).lse
        close("lse", lse, np.full((2, 1, 1), np.log(sum(COUNTS))), room(subject))


@THEME.case(
    "lse-type",
    "the log-sum-exp of float16 inputs is float32 or wider",
    needs={"lse", "half"},
    level="full",
)
def _lse_type(subject: StepSubject) -> None:
    lse = subject.step(draw(subject, Size(1, 9, 4, 3)), dtype="float16", return_lse=True).native_lse
    came = str(lse.dtype).removeprefix("torch.")
    true(came in ("float32", "float64"), "type of lse", "float32 or float64", came)


@THEME.case("scores-of-10000", "scores of ±10,000: exp alone would overflow")
def _huge(subject: StepSubject) -> None:
    hold(subject, draw(subject, Size(1, 33, 8, 5), gain=60.0))


@THEME.case("all-scores-very-low", "every score is -1e5: exp alone gives 0 / 0")
def _low(subject: StepSubject) -> None:
    inputs = draw(subject, Size(1, 21, 1, 4))
    inputs.query[...], inputs.key[...] = 1e5, -1.0
    hold(subject, inputs)


@THEME.case("float32", "float32 inputs: right up to float32's rounding, and float32 comes back")
def _float32(subject: StepSubject) -> None:
    answer = hold(subject, draw(subject, Size(1, 33, 16, 8)), dtype="float32")
    came = str(answer.native_out.dtype).removeprefix("torch.")
    true(came == "float32", "type of out", "float32, as the query", came)


@THEME.case(
    "half-scores",
    "queries and keys of 3,000 in float16: sums go in float32",
    needs={"half"},
    level="full",
)
def _half(subject: StepSubject) -> None:
    one_hot = np.zeros((2, 2, 6, 6)) + 3e3 * np.eye(6)
    value = draw(subject, Size(1, 6, 6, 4)).value
    for i in range(6):
        inputs = Problem(one_hot[:, :, i : i + 1], one_hot, value)
        wanted = value[:, :, i : i + 1].astype(np.float16)
        close("out in float16", subject.step(inputs, dtype="float16").out, wanted, 0.0)


@THEME.case(
    "half-long-row",
    "the mean of 8,192 ones is 1 in float16: their sum does not stand still",
    needs={"half"},
    level="full",
    scores=8192,
)
def _half_long(subject: StepSubject) -> None:
    inputs = Problem(np.zeros((1, 1, 1, 2)), np.zeros((1, 1, 8192, 2)), np.ones((1, 1, 8192, 1)))
    out = subject.step(inputs, dtype="float16", page=64).out
    close("out in float16", out, np.ones_like(out), 2e-3)


@THEME.case("long-cache", "2,100 keys: the oracle's answer", scores=2100)
def _long(subject: StepSubject) -> None:
    hold(subject, draw(subject, Size(1, 2100, 1, 2, B=1, H=1)), page=16)


@THEME.case("very-long-cache", "40,001 keys: the oracle's answer", level="full", scores=40_001)
def _very_long(subject: StepSubject) -> None:
    hold(subject, draw(subject, Size(1, 40_001, 1, 2, B=1, H=1)), page=64)


@THEME.case("many-sequences", "19 sequences of 7 heads", level="full")
def _many(subject: StepSubject) -> None:
    hold(subject, draw(subject, Size(1, 5, 2, 3, B=19, H=7)))


@THEME.case("wide-heads", "keys 300 wide, values 130 wide", level="full")
def _wide(subject: StepSubject) -> None:
    hold(subject, draw(subject, Size(1, 5, 300, 130)))


@THEME.case("every-number-of-keys", "1, 2, 3 … 130 keys", level="full", scores=130)
def _every(subject: StepSubject) -> None:
    for num_keys in range(1, 131):
        hold(subject, draw(subject, Size(1, num_keys, 1, 2, B=1, H=1)))
