"""Gradients: against finite differences, against autograd, and where they must be zero."""

from __future__ import annotations

from typing import Any

from attncourse.conformance._backward import (
    NAMES,
    hold_gradients,
    leaves,
)
from attncourse.conformance._case import Theme
from attncourse.conformance._check import Mismatch
from attncourse.conformance._modes import MODES
from attncourse.conformance._oracle import Problem, Size, problem
from attncourse.conformance._subject import Subject

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
        text = " ".join(str(error).split())
        raise Mismatch("gradcheck", "finite differences and backward to agree", text) from error


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
