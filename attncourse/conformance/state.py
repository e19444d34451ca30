"""Nothing is left behind by a call: no buffer that is used again, no answer remembered.

A function that returns the memory of its last result, or hands out its input as its output,
is right in every test that looks at one result at once. In a model it overwrites what was
read before. So results are kept here while other calls run and while inputs change.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse.conformance._backward import (
    NAMES,
    grad_of,
    gradients,
    leaves,
    output_gradient,
)
from attncourse.conformance._case import Theme
from attncourse.conformance._check import Mismatch, close, same_bits
from attncourse.conformance._modes import MODES
from attncourse.conformance._oracle import Problem, Size, hold_to_oracle, problem
from attncourse.conformance._subject import Subject, to_numpy
from attncourse.conformance._tolerance import EPS

THEME = Theme("state")
GRAD = frozenset({"grad", "torch"})
SIZE = Size(5, 7, 4, 3)


def _natives(subject: Subject, inputs: Problem, **more: np.ndarray) -> dict[str, Any]:
    dtype = subject.dtype("float64")
    arrays = dict(zip(NAMES, inputs, strict=True)) | more
    return {name: subject.native(array, dtype) for name, array in arrays.items()}


@THEME.case("results-are-kept", "a result keeps its numbers while the function is called again")
def _kept(subject: Subject) -> None:
    options = {"return_lse": True} if subject.has("lse") else {}
    for size in (SIZE, Size(1, 1, 1, 1)):
        inputs = problem(subject, size)
        first = subject.call_native(_natives(subject, inputs), dict(options))
        for seed in (1, 2, 3):
            other = problem(subject, size, seed=seed)
            subject.call_native(_natives(subject, other), dict(options))
        same_bits("first out, after three calls", to_numpy(first.native_out), first.out)
        if first.lse is not None:
            same_bits("first lse, after three calls", to_numpy(first.native_lse), first.lse)


# Shapes in which the output is as large as an input, or equal to one.
ALIKE = (Size(1, 1, 1, 1), Size(3, 1, 2, 2), Size(1, 3, 2, 2), Size(3, 3, 2, 2), Size(3, 3, 1, 1))


@THEME.case(
    "result-is-its-own-memory",
    "a result keeps its numbers when query, key and value are overwritten afterwards",
)
def _own_memory(subject: Subject) -> None:
    ways: list[dict[str, Any]] = [{}]
    ways += [{"is_causal": True}] if subject.has("causal") else []
    ways += [{"return_lse": True}] if subject.has("lse") else []
    for size in ALIKE:
        for options in ways:
            natives = _natives(subject, problem(subject, size))
            answer = subject.call_native(natives, dict(options))
            for native in natives.values():
                native[...] = 9.0
            same_bits("out, after its inputs changed", to_numpy(answer.native_out), answer.out)
            if answer.lse is not None:
                same_bits("lse, after its inputs changed", to_numpy(answer.native_lse), answer.lse)


@THEME.case(
    "same-arrays-new-numbers",
    "the same arrays with other numbers in them: nothing is remembered by an array's identity",
)
def _new_numbers(subject: Subject) -> None:
    dtype = subject.dtype("float64")
    inputs = problem(subject, SIZE)
    natives = _natives(subject, inputs)
    subject.call_native(natives, {})
    for name in NAMES:
        other = dict(zip(NAMES, problem(subject, SIZE, seed=4), strict=True))[name]
        natives[name][...] = subject.native(other, dtype)
        came = subject.call_native(natives, {}).out
        wanted = subject.call(*(to_numpy(natives[n]) for n in NAMES)).out  # in new arrays
        close(f"out with another {name} in the same array", came, wanted, 1e3 * EPS[dtype])


@THEME.case(
    "same-mask-new-numbers",
    "the same mask array with other entries: nothing is remembered by its identity",
    needs={"bool_mask"},
    level="full",
)
def _new_mask(subject: Subject) -> None:
    inputs = problem(subject, SIZE)
    mask = np.tri(5, 7, dtype=bool)
    natives = _natives(subject, inputs, attn_mask=mask)
    subject.call_native(natives, {"attn_mask": None})
    natives["attn_mask"][...] = subject.native(~mask, "float64")
    came = subject.call_native(natives, {"attn_mask": None}).out
    wanted = subject.call(*inputs, attn_mask=~mask).out
    close("out with another mask in the same array", came, wanted, 1e3 * EPS["float32"])


@THEME.case(
    "same-shapes-new-numbers",
    "other numbers in the same shapes get other answers: nothing is remembered by shape",
)
def _same_shapes(subject: Subject) -> None:
    size = Size(6, 11, 3, 2)  # a shape of its own: nobody has asked for it before
    inputs = problem(subject, size)
    if _wrong(subject, inputs):
        return
    before = subject.call(*inputs).out
    for seed in range(1, 11):
        hold_to_oracle(subject, problem(subject, size, seed=seed))
    same_bits("out of the first inputs again", subject.call(*inputs).out, before)


def _wrong(subject: Subject, inputs: Problem, **options: Any) -> bool:
    """Tell whether an answer is wrong already at the first call: then no state is to blame."""
    try:
        hold_to_oracle(subject, inputs, **options)
    except Mismatch:
        return True
    return False


@THEME.case("options-do-not-stick", "after a call with any option, a plain call is plain again")
def _options(subject: Subject) -> None:
    inputs = problem(subject, Size(5, 7, 4, 3, B=1))
    plain = subject.call(*inputs).out
    for mode in MODES:
        if subject.has(*MODES[mode].needs):
            grouped = "gqa" in MODES[mode].needs
            other = problem(subject, Size(5, 7, 4, 3, B=1, H=2, Hkv=1 if grouped else 2))
            subject.call(*other, **MODES[mode].options(other))
            same_bits(f"plain out after {mode}", subject.call(*inputs).out, plain)


@THEME.case(
    "masks-of-several-lengths",
    "a causal mask made for one length is not used for another",
    needs={"causal"},
)
def _lengths(subject: Subject) -> None:
    # Lengths that no other case uses, so that the first of each width is a first call.
    for first in ((10, 19), (19, 10), (13, 13)):
        if _wrong(subject, problem(subject, Size(*first, 4, 3)), is_causal=True):
            return
    for length in ((22, 22), (9, 22), (22, 9), (1, 22), (14, 22), (22, 14)):
        hold_to_oracle(subject, problem(subject, Size(*length, 4, 3)), is_causal=True)


@THEME.case("types-do-not-stick", "float64 after float32 is what it was before", level="full")
def _types(subject: Subject) -> None:
    seen: dict[str, Any] = {}
    inputs = problem(subject, SIZE)
    for dtype in (subject.dtype("float64"), "float32", subject.dtype("float64"), "float32"):
        out = subject.call(*inputs, dtype=dtype).out
        same_bits(f"out in {dtype}, again", out, seen.setdefault(dtype, out))


@THEME.case("hundred-calls", "the hundredth call is as right as the first", level="full")
def _hundred(subject: Subject) -> None:
    inputs = problem(subject, Size(2, 3, 2, 1, B=1, H=1))
    first = subject.call(*inputs).out
    for number in range(2, 131):
        same_bits(f"out of call {number}", subject.call(*inputs).out, first)


@THEME.case(
    "two-forwards-then-two-backwards",
    "each backward pass belongs to its own forward pass",
    needs=GRAD,
)
def _interleaved(subject: Subject) -> None:
    dtype = subject.dtype("float64")
    problems = [problem(subject, SIZE, seed=seed) for seed in (0, 1)]
    upstream = output_gradient(problems[0])
    started = []
    for inputs in problems:
        natives = leaves(subject, inputs, dtype)
        started.append((natives, subject.call_native(natives, {}).native_out))
    for _, out in started:
        out.backward(subject.native(upstream, dtype))
    for inputs, (natives, _) in zip(problems, started, strict=True):
        alone = gradients(subject, inputs, upstream)
        for name in NAMES:
            close(f"gradient of {name}", grad_of(natives[name], name), alone[name], _room(dtype))


def _room(dtype: str) -> float:
    return 1e4 * EPS[dtype]


@THEME.case(
    "backward-leaves-all-as-it-was",
    "a backward pass changes neither the inputs, nor the output, nor the gradient it is given",
    needs=GRAD,
    level="full",
)
def _backward_reads(subject: Subject) -> None:
    dtype = subject.dtype("float64")
    inputs = problem(subject, SIZE)
    natives = leaves(subject, inputs, dtype)
    answer = subject.call_native(natives, {})
    upstream = subject.native(output_gradient(inputs), dtype)
    before = {"out": answer.out, "gradient of out": to_numpy(upstream)}
    before |= {name: to_numpy(native) for name, native in natives.items()}
    answer.native_out.backward(upstream)
    after = {"out": answer.native_out, "gradient of out": upstream, **natives}
    for name, array in before.items():
        same_bits(f"{name} after backward", to_numpy(after[name]), array)


@THEME.case(
    "gradients-are-kept",
    "gradients keep their numbers while the function is called and differentiated again",
    needs=GRAD,
    level="full",
)
def _kept_gradients(subject: Subject) -> None:
    import torch

    dtype = subject.dtype("float64")
    inputs = problem(subject, SIZE)
    upstream = output_gradient(inputs)
    natives = leaves(subject, inputs, dtype)
    out = subject.call_native(natives, {}).native_out
    pushed = subject.native(upstream, dtype)
    grads = torch.autograd.grad(out, tuple(natives.values()), pushed)
    before = [to_numpy(grad) for grad in grads]
    gradients(subject, problem(subject, SIZE, seed=1), upstream)
    for name, grad, wanted in zip(NAMES, grads, before, strict=True):
        same_bits(f"gradient of {name} after another call", to_numpy(grad), wanted)


@THEME.case(
    "backward-twice",
    "with retain_graph, a second backward pass adds the same gradients again",
    needs=GRAD,
    level="full",
)
def _again(subject: Subject) -> None:
    dtype = subject.dtype("float64")
    inputs = problem(subject, SIZE)
    natives = leaves(subject, inputs, dtype)
    out = subject.call_native(natives, {}).native_out
    upstream = output_gradient(inputs)
    for _ in range(2):
        out.backward(subject.native(upstream, dtype), retain_graph=True)
    once = gradients(subject, inputs, upstream)
    for name in NAMES:
        twice = 2 * once[name]
        close(f"gradient of {name}", grad_of(natives[name], name), twice, _room(dtype))
