"""Gradients: against finite differences, against autograd, and where they must be zero."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from attncourse.conformance._backward import (
    NAMES,
    grad_of,
    hold_gradients,
    leaves,
    output_gradient,
)
from attncourse.conformance._case import Theme
from attncourse.conformance._check import Mismatch, close
from attncourse.conformance._modes import MODES
from attncourse.conformance._oracle import Problem, Size, problem
from attncourse.conformance._plain import plain
from attncourse.conformance._subject import Subject, to_numpy
from attncourse.conformance._tolerance import EPS

THEME = Theme("gradients")
GRAD = frozenset({"grad", "torch"})
MODES_HERE = (
    "plain",
    "causal",
    "bottom-right",
    "window",
    "bool-mask",
    "float-mask",
    "softcap",
    "alibi",
    "grouped",
    "dropout",
    "causal-dropout",
    "everything",
)

QUICK = ("plain", "causal", "grouped", "bool-mask")


def _sizes(mode: str) -> tuple[Size, Size]:
    """Return a small size for finite differences and a ragged one for autograd."""
    grouped = "gqa" in MODES[mode].needs
    small = Size(3, 4, 2, 2, B=1, H=2 if grouped else 1, Hkv=1)
    return small, Size(18, 35, 8, 5, B=2, H=4 if grouped else 2, Hkv=2)


def _by_differences(
    subject: Subject, inputs: Problem, twice: bool, fast: bool, **options: Any
) -> None:
    """Run torch's gradcheck: finite differences in float64, fast ones in random directions."""
    from torch.autograd import gradcheck, gradgradcheck

    natives = leaves(subject, inputs, "float64")
    others = {n: a for n, a in options.items() if n in ("attn_mask", "alibi_slopes")}
    arrays = {name: subject.native(array, "float64") for name, array in others.items()}

    def function(*tensors: Any) -> Any:
        named = dict(zip(NAMES, tensors, strict=True))
        return subject.call_native({**named, **arrays}, options).native_out

    check = gradgradcheck if twice else gradcheck
    try:
        check(function, tuple(natives.values()), fast_mode=fast)
    except RuntimeError as error:
        wanted = "finite differences and backward to agree"
        raise Mismatch("gradcheck", wanted, _in_short(str(error))) from error


def _in_short(message: str) -> str:
    """Name the input whose derivative is wrong, in place of torch's two whole Jacobians."""
    found = re.search(r"with respect to input (\d+)", message)
    if found is None or int(found[1]) >= len(NAMES):
        return " ".join(message.split())
    return f"another derivative by {NAMES[int(found[1])]}"


def _fill() -> None:
    for mode in MODES_HERE:
        small, ragged = _sizes(mode)

        def by_differences(
            subject: Subject, mode: str = mode, size: Size = small, twice: bool = False
        ) -> None:
            inputs = problem(subject, size)
            options = {**MODES[mode].options(inputs)}
            options.pop("return_lse", None)
            _by_differences(subject, inputs, twice, mode not in QUICK, **options)

        def by_autograd(subject: Subject, mode: str = mode, size: Size = ragged) -> None:
            inputs = problem(subject, size)
            options = {**MODES[mode].options(inputs)}
            hold_gradients(subject, inputs, **options)

        def twice(subject: Subject, check: Any = by_differences) -> None:
            check(subject, twice=True)

        needs = GRAD | MODES[mode].needs
        level = "quick" if mode in QUICK else "full"
        THEME.add(
            f"finite-differences-{mode}",
            f"gradcheck in float64, {mode}",
            by_differences,
            needs=needs | {"float64"},
            level=level,
            scores=small.scores,
            gradcheck=True,
        )
        THEME.add(
            f"autograd-18x35-{mode}",
            f"the gradients of plain PyTorch, {mode}",
            by_autograd,
            needs=needs,
            level="full",
            scores=ragged.scores,
        )
        if mode in ("plain", "causal", "bool-mask", "everything"):
            THEME.add(
                f"second-derivatives-{mode}",
                f"gradgradcheck in float64, {mode}",
                twice,
                needs=needs | {"grad_twice", "float64"},
                level="full",
                scores=small.scores,
                gradcheck=True,
            )


_fill()


def _extra_gradient(subject: Subject, name: str, numbers: np.ndarray, **options: Any) -> None:
    """Hold the gradient of a mask or of slopes to plain PyTorch's, unless it is refused."""
    import torch

    inputs = problem(subject, Size(5, 70, 4, 3))
    dtype, upstream = subject.dtype("float64"), output_gradient(inputs)
    extra = subject.native(numbers, dtype).requires_grad_()
    natives = {**leaves(subject, inputs, dtype), name: extra}
    try:
        out = subject.call_native(natives, {name: extra, **options}).native_out
    except NotImplementedError:
        return
    out.backward(subject.native(upstream, dtype))
    leaf = torch.tensor(numbers).requires_grad_()
    added = leaf
    if name == "alibi_slopes":
        distance = np.abs(np.arange(5)[:, None] - np.arange(70))
        added = -leaf[..., None, None] * torch.tensor(distance)
    right, _ = plain(map(torch.tensor, inputs), {"added": added, **options})
    right.backward(torch.tensor(upstream))
    close(f"gradient of {name}", grad_of(extra, name), to_numpy(leaf.grad), 1e5 * EPS[dtype])


@THEME.case(
    "mask-gradient-right-or-refused",
    "a float mask that requires gradients gets right ones, or the call says no",
    needs=GRAD | {"float_mask"},
)
def _mask_gradient(subject: Subject) -> None:
    numbers = np.random.default_rng(3).standard_normal((2, 2, 5, 70))
    cuts = [np.s_[0, 0], np.s_[0, 0, :1], np.s_[0, 0, :, :1]]
    if subject.has("batch"):
        cuts += [np.s_[:, :, :, :], np.s_[:, :1, :1], np.s_[:1, :, :, :1]]
    for cut in cuts:
        _extra_gradient(subject, "attn_mask", numbers[cut])
        if subject.has("softcap"):
            _extra_gradient(subject, "attn_mask", numbers[cut], softcap=1.5)


@THEME.case(
    "slopes-gradient-right-or-refused",
    "ALiBi slopes that require gradients get right ones, or the call says no",
    needs=GRAD | {"alibi", "batch"},
    level="full",
)
def _slopes_gradient(subject: Subject) -> None:
    _extra_gradient(subject, "alibi_slopes", np.array([0.05, 0.1]))
    _extra_gradient(subject, "alibi_slopes", np.array([[0.05, 0.1], [0.02, 0.03]]))


@THEME.case(
    "second-derivative-right-or-refused",
    "a gradient of the gradients is right, or the call says no",
    needs=GRAD,
    level="full",
)
def _second_derivative(subject: Subject) -> None:
    import torch

    inputs = problem(subject, Size(5, 20, 4, 3))
    dtype, upstream = subject.dtype("float64"), output_gradient(inputs)
    ours = leaves(subject, inputs, dtype)
    theirs = {n: torch.tensor(x).requires_grad_() for n, x in zip(NAMES, inputs, strict=True)}
    try:
        out = subject.call_native(ours, {}).native_out
        came = _twice(out, ours, subject.native(upstream, dtype))
    except (RuntimeError, NotImplementedError):
        return
    right = _twice(plain(theirs.values(), {})[0], theirs, torch.tensor(upstream))
    for name, first, second in zip(NAMES, came, right, strict=True):
        what = f"second derivative by {name}"
        close(what, to_numpy(first), to_numpy(second), 1e5 * EPS[dtype])


def _twice(out: Any, tensors: dict[str, Any], upstream: Any) -> tuple[Any, ...]:
    """Differentiate the sum of the squares of the gradients, as a gradient penalty does."""
    import torch

    firsts = torch.autograd.grad(out, tuple(tensors.values()), upstream, create_graph=True)
    for name, first in zip(tensors, firsts, strict=True):
        if not first.requires_grad:
            wanted = "a gradient that can be differentiated, or an error"
            raise Mismatch(f"gradient of {name}", wanted, "one that counts as a constant")
    penalty = torch.stack([(first**2).sum() for first in firsts]).sum()
    return torch.autograd.grad(penalty, tuple(tensors.values()))
