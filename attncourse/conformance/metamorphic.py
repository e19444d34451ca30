"""Laws that hold whatever the numbers: no oracle is asked, only the function itself.

Each law changes the inputs in a way whose effect on the output is known: keys in another
order, a constant added to all scores, a future that changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse import softmax
from attncourse.conformance._case import Theme
from attncourse.conformance._check import close, same_bits, true
from attncourse.conformance._modes import Options, bool_mask
from attncourse.conformance._oracle import Problem, Size, problem
from attncourse.conformance._subject import Subject
from attncourse.conformance._tolerance import rounding

THEME = Theme("metamorphic")
SIZE = Size(17, 33, 8, 5)


def _alike(subject: Subject, first: Any, second: Any, inputs: Problem, what: str = "out") -> None:
    """Compare two answers of the function, both with rounding errors of their own."""
    allowed = 2 * rounding(subject.dtype("float64"), inputs, {})[0]
    close(what, first, second, allowed)


@THEME.case("keys-in-any-order", "keys and values in another order give the same output")
def _permuted(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    order = np.random.default_rng(1).permutation(SIZE.S)
    mixed = Problem(inputs.query, inputs.key[..., order, :], inputs.value[..., order, :])
    _alike(subject, subject.call(*mixed).out, subject.call(*inputs).out, inputs)


@THEME.case("queries-in-any-order", "each query is answered on its own")
def _queries(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    order = np.random.default_rng(1).permutation(SIZE.L)
    mixed = Problem(inputs.query[..., order, :], inputs.key, inputs.value)
    _alike(subject, subject.call(*mixed).out, subject.call(*inputs).out[..., order, :], inputs)


@THEME.case("shifted-keys", "adding one vector to all keys shifts each row's scores and no more")
def _shifted(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    far = Problem(inputs.query, inputs.key + np.linspace(-3, 3, SIZE.E), inputs.value)
    _alike(subject, subject.call(*far).out, subject.call(*inputs).out, far)


@THEME.case("shifted-mask", "adding 50 to a whole mask changes nothing", needs={"float_mask"})
def _shifted_mask(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    shifted = subject.call(*inputs, attn_mask=np.full((SIZE.L, SIZE.S), 50.0)).out
    allowed = rounding(subject.dtype("float64"), inputs, {"attn_mask": np.array(50.0)})[0]
    close("out", shifted, subject.call(*inputs).out, 2 * allowed)


@THEME.case("values-of-one", "weights add up to 1: values of 1 come back as 1")
def _ones(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    ones = Problem(inputs.query, inputs.key, np.ones_like(inputs.value))
    options: list[Options] = [{}]
    if subject.has("causal"):
        options.append({"is_causal": True})
    for option in options:
        out = subject.call(*ones, **option).out
        _alike(subject, out, np.ones_like(out), ones)


@THEME.case("between-smallest-and-largest", "a mean never leaves the range of the values")
def _range(subject: Subject) -> None:
    inputs = problem(subject, SIZE, gain=4.0)
    out = subject.call(*inputs).out
    slack = rounding(subject.dtype("float64"), inputs, {})[0]
    low, high = inputs.value.min(-2, keepdims=True), inputs.value.max(-2, keepdims=True)
    inside = ((out >= low - slack) & (out <= high + slack)).all()
    true(inside, "out", "between the smallest and the largest value", "outside")


@THEME.case("linear-in-values", "out(a·v + b·w) = a·out(v) + b·out(w)", level="full")
def _linear(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    other = problem(subject, SIZE, seed=5).value
    both = Problem(inputs.query, inputs.key, 2 * inputs.value - 3 * other)
    out = [subject.call(inputs.query, inputs.key, value).out for value in (inputs.value, other)]
    _alike(subject, subject.call(*both).out, 2 * out[0] - 3 * out[1], both)


@THEME.case("heads-apart", "each head and each sequence is answered on its own", needs={"batch"})
def _heads(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    whole = subject.call(*inputs).out
    for b, h in np.ndindex(SIZE.B, SIZE.H):
        cut = np.s_[b : b + 1, h : h + 1]
        alone = subject.call(*(array[cut] for array in inputs)).out
        _alike(subject, alone, whole[cut], inputs, f"out of sequence {b}, head {h}")


@THEME.case(
    "split-and-merge", "two halves of the keys, merged by lse, give the whole", needs={"lse"}
)
def _merge(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    whole = subject.call(*inputs, return_lse=True)
    for cut in (1, 16, 20):
        halves = [
            subject.call(
                inputs.query, inputs.key[..., part, :], inputs.value[..., part, :], return_lse=True
            )
            for part in (slice(0, cut), slice(cut, SIZE.S))
        ]
        pairs = [piece for half in halves for piece in (half.out, half.lse)]
        out, lse = softmax.merge(*pairs)
        _alike(subject, out, whole.out, inputs)
        close("lse", lse, whole.lse, 2 * rounding(subject.dtype("float64"), inputs, {})[1])


@THEME.case(
    "the-future-cannot-be-read",
    "rows before i keep every bit when keys and values from i on change",
    needs={"causal"},
    scores=4 * 40 * 40,
)
def _prefix(subject: Subject) -> None:
    inputs = problem(subject, Size(40, 40, 8, 5))
    other = problem(subject, Size(40, 40, 8, 5), seed=9)
    before = subject.call(*inputs, is_causal=True).out
    for i in (1, 16, 31, 39):
        key, value = inputs.key.copy(), inputs.value.copy()
        key[..., i:, :], value[..., i:, :] = 5 * other.key[..., i:, :], other.value[..., i:, :]
        after = subject.call(inputs.query, key, value, is_causal=True).out
        same_bits(f"out before {i}", after[..., :i, :], before[..., :i, :])


@THEME.case(
    "decoding-step-is-a-row",
    "the newest query alone, with all its keys, gives its row",
    needs={"causal"},
)
def _decode(subject: Subject) -> None:
    inputs = problem(subject, Size(21, 21, 8, 5))
    whole = subject.call(*inputs, is_causal=True).out
    for t in (0, 1, 15, 16, 20):
        step = (
            inputs.query[..., t : t + 1, :],
            inputs.key[..., : t + 1, :],
            inputs.value[..., : t + 1, :],
        )
        _alike(subject, subject.call(*step).out, whole[..., t : t + 1, :], inputs, f"row {t}")
        if subject.has("bottom_right"):
            options: Options = {"is_causal": True, "causal_align": "bottom_right"}
            row = subject.call(*step, **options).out
            _alike(subject, row, whole[..., t : t + 1, :], inputs, f"row {t}, bottom right")


@THEME.case(
    "wide-window-is-causal", "a window of all keys is a causal mask", needs={"causal", "window"}
)
def _wide(subject: Subject) -> None:
    inputs = problem(subject, Size(33, 33, 8, 5))
    window = subject.call(*inputs, is_causal=True, window_size=33).out
    _alike(subject, window, subject.call(*inputs, is_causal=True).out, inputs)


@THEME.case(
    "causal-is-a-mask", "is_causal is the triangle as a boolean mask", needs={"causal", "bool_mask"}
)
def _as_mask(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    masked = subject.call(*inputs, attn_mask=np.tri(SIZE.L, SIZE.S, dtype=bool)).out
    _alike(subject, subject.call(*inputs, is_causal=True).out, masked, inputs)


@THEME.case(
    "mask-is-a-shorter-sequence", "hiding keys equals leaving them out", needs={"bool_mask"}
)
def _shorter(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    kept = np.random.default_rng(3).random(SIZE.S) < 0.5
    short = Problem(inputs.query, inputs.key[..., kept, :], inputs.value[..., kept, :])
    masked = subject.call(*inputs, attn_mask=np.broadcast_to(kept, (SIZE.L, SIZE.S))).out
    _alike(subject, masked, subject.call(*short).out, inputs)


@THEME.case(
    "bool-mask-is-float-mask",
    "a boolean mask equals 0 and -inf added",
    needs={"bool_mask", "float_mask"},
)
def _bool_float(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    mask = bool_mask(inputs)
    added = subject.call(*inputs, attn_mask=np.where(mask, 0.0, -np.inf)).out
    _alike(subject, added, subject.call(*inputs, attn_mask=mask).out, inputs)


@THEME.case(
    "grouped-is-repeated", "sharing key heads equals repeating them", needs={"gqa", "batch"}
)
def _grouped(subject: Subject) -> None:
    inputs = problem(subject, Size(17, 33, 8, 5, H=6, Hkv=2))
    key, value = np.repeat(inputs.key, 3, axis=1), np.repeat(inputs.value, 3, axis=1)
    repeated = subject.call(inputs.query, key, value).out
    _alike(subject, subject.call(*inputs, enable_gqa=True).out, repeated, inputs)


@THEME.case(
    "lse-changes-nothing", "asking for the log-sum-exp does not change the output", needs={"lse"}
)
def _with_lse(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    with_lse = subject.call(*inputs, return_lse=True).out
    _alike(subject, with_lse, subject.call(*inputs).out, inputs)


@THEME.case("twice-the-same", "the same call gives the same bits again")
def _twice(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    same_bits("second out", subject.call(*inputs).out, subject.call(*inputs).out)
