"""Memory layouts: the same numbers, reached by other strides.

Models hand attention transposed views, slices of one packed qkv, heads expanded without a
copy. A function that reads memory as if it were packed gives wrong numbers here, in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attncourse.conformance._case import Theme
from attncourse.conformance._check import close
from attncourse.conformance._modes import MODES, bool_mask, float_mask
from attncourse.conformance._oracle import Size, hold_to_oracle, problem
from attncourse.conformance._subject import Subject
from attncourse.conformance._tolerance import EPS

THEME = Theme("layouts")


def _stack(arrays: list[Any]) -> Any:
    """Stack on a new first axis, in either library."""
    if isinstance(arrays[0], np.ndarray):
        return np.stack(arrays)
    import torch

    return torch.stack(arrays)


def _move(array: Any, axes: tuple[int, ...]) -> Any:
    return array.transpose(axes) if isinstance(array, np.ndarray) else array.permute(axes)


def _copied(array: Any) -> Any:
    return array.copy() if isinstance(array, np.ndarray) else array.contiguous()


def last_axis_first(name: str, array: Any) -> Any:
    """Store the last axis first (Fortran order of the last two axes)."""
    axes = (*range(array.ndim - 2), array.ndim - 1, array.ndim - 2)
    return _move(_copied(_move(array, axes)), axes)


def heads_inside(name: str, array: Any) -> Any:
    """Store (B, L, H, E) and look at it as (B, H, L, E), as models do."""
    if array.ndim != 4:
        return array
    return _move(_copied(_move(array, (0, 2, 1, 3))), (0, 2, 1, 3))


def packed(name: str, array: Any) -> Any:
    """Cut the array out of a larger one whose neighbours are NaN."""
    if "bool" in str(array.dtype):
        return array
    nan = array * float("nan")
    both = _stack([nan, array, nan])
    both = _copied(_move(both, (*range(1, both.ndim), 0)))
    return both[..., 1]


def every_second(name: str, array: Any) -> Any:
    """Stride the last axis: every second number of a row twice as long."""
    width = array.shape[-1]
    pairs = _copied(_move(_stack([array, array]), (*range(1, array.ndim + 1), 0)))
    return pairs.reshape(*array.shape[:-1], 2 * width)[..., ::2]


def sliced_rows(name: str, array: Any) -> Any:
    """Take the middle rows of a longer array: the data starts at an offset."""
    if isinstance(array, np.ndarray):
        return np.concatenate([array, array, array], axis=-2)[
            ..., array.shape[-2] : 2 * array.shape[-2], :
        ]
    import torch

    tripled = torch.cat([array, array, array], dim=-2)
    return tripled[..., array.shape[-2] : 2 * array.shape[-2], :]


ARRANGEMENTS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "transposed": ("rows and columns stored the other way round", last_axis_first),
    "heads-inside": ("(B, L, H, E) in memory, seen as (B, H, L, E)", heads_inside),
    "packed-qkv": ("slices of one array that holds other numbers in between", packed),
    "strided-last-axis": ("every second number of a longer row", every_second),
    "sliced": ("the middle of a longer array", sliced_rows),
}


def _fill() -> None:
    for name, (how, arrange) in ARRANGEMENTS.items():
        for mode in ("plain", "bool-mask", "float-mask", "causal-grouped"):

            def check(subject: Subject, mode: str = mode, arrange: Any = arrange) -> None:
                heads = (4, 2) if mode == "causal-grouped" else (3, 3)
                inputs = problem(subject, Size(18, 23, 8, 5, H=heads[0], Hkv=heads[1]))
                hold_to_oracle(subject, inputs, arrange=arrange, **MODES[mode].options(inputs))

            THEME.add(
                f"{name}-{mode}",
                f"{how}, {mode}: the same answer",
                check,
                needs=MODES[mode].needs,
                level="quick" if mode == "plain" else "full",
                scores=8 * 18 * 23,
            )


_fill()


def _expanded(name: str, array: Any) -> Any:
    """Show one head, or one batch entry, as many: stride 0."""
    if array.ndim != 4 or name not in ("key", "value", "attn_mask"):
        return array
    one = array[:1, :1]
    shape = tuple(array.shape)
    return np.broadcast_to(one, shape) if isinstance(array, np.ndarray) else one.expand(shape)


def _same_in_all_heads(array: np.ndarray) -> np.ndarray:
    return np.broadcast_to(array[:1, :1], array.shape).copy()


@THEME.case("expanded-keys", "keys and values with stride 0 over batch and heads", needs={"batch"})
def _expanded_keys(subject: Subject) -> None:
    inputs = problem(subject, Size(7, 18, 8, 5, H=3))
    key, value = map(_same_in_all_heads, (inputs.key, inputs.value))
    inputs = type(inputs)(inputs.query, key, value)
    hold_to_oracle(subject, inputs, arrange=_expanded)


@THEME.case(
    "expanded-mask",
    "a mask with stride 0 over batch and heads",
    needs={"batch", "bool_mask"},
    level="full",
)
def _expanded_mask(subject: Subject) -> None:
    inputs = problem(subject, Size(7, 18, 8, 5, H=3))
    key, value = map(_same_in_all_heads, (inputs.key, inputs.value))
    inputs = type(inputs)(inputs.query, key, value)
    mask = _same_in_all_heads(bool_mask(inputs))
    hold_to_oracle(subject, inputs, arrange=_expanded, attn_mask=mask)


MASK_CUTS = {
    "row-of-keys": (np.s_[:1, :1, :1, :], "(1, 1, 1, S): one row for all queries"),
    "one-a-sequence": (np.s_[:, :1, :1, :], "(B, 1, 1, S): padding"),
    "one-a-head": (np.s_[:1, :, :, :], "(1, H, L, S)"),
    "two-axes": (np.s_[0, 0], "(L, S): the same for all"),
    "three-axes": (np.s_[0], "(H, L, S): the same for all sequences"),
    "column-of-queries": (np.s_[:, :, :, :1], "(B, H, L, 1): whole rows shown or hidden"),
}


def _fill_masks() -> None:
    for kind, draw in (("bool_mask", bool_mask), ("float_mask", float_mask)):
        for name, (cut, says) in MASK_CUTS.items():

            def check(subject: Subject, cut: Any = cut, draw: Any = draw) -> None:
                inputs = problem(subject, Size(7, 18, 8, 5, H=3))
                hold_to_oracle(subject, inputs, attn_mask=draw(inputs)[cut])

            THEME.add(
                f"{kind.replace('_', '-')}-{name}",
                f"a mask of shape {says} broadcasts",
                check,
                needs={"batch", kind},
                level="full",
            )


_fill_masks()


@THEME.case("read-only", "inputs that must not be written to, negative strides", level="full")
def _read_only(subject: Subject) -> None:
    if subject.library == "torch":
        return

    def arrange(name: str, array: np.ndarray) -> np.ndarray:
        backwards = array[..., ::-1].copy()[..., ::-1]
        backwards.flags.writeable = False
        return backwards

    hold_to_oracle(subject, problem(subject, Size(7, 18, 8, 5)), arrange=arrange)


@THEME.case("inputs-unchanged", "no input is written to, with masks and scale given")
def _unchanged(subject: Subject) -> None:
    inputs = problem(subject, Size(7, 9, 8, 5), gain=3.0)
    subject.call(*inputs)
    for mode in ("bool-mask", "float-mask", "causal", "alibi", "everything"):
        if subject.has(*MODES[mode].needs):
            subject.call(*inputs, **MODES[mode].options(inputs))


@THEME.case("one-array-three-times", "the same array as query, key and value")
def _self(subject: Subject) -> None:
    query = problem(subject, Size(7, 7, 4)).query
    dtype = subject.dtype("float64")
    shared = subject.native(query, dtype)
    came = subject.call_native({"query": shared, "key": shared, "value": shared}, {})
    close("out", came.out, subject.call(query, query, query).out, 1e3 * EPS[dtype])


@THEME.case("overlapping-views", "query, key and value that overlap in one array", level="full")
def _overlapping(subject: Subject) -> None:
    whole = problem(subject, Size(7, 7, 8)).query
    dtype = subject.dtype("float64")
    cuts = {"query": np.s_[..., :5], "key": np.s_[..., 1:6], "value": np.s_[..., 2:7]}
    stored = subject.native(whole, dtype)
    came = subject.call_native({name: stored[cut] for name, cut in cuts.items()}, {})
    apart = subject.call(*(whole[cut] for cut in cuts.values()))
    close("out", came.out, apart.out, 1e3 * EPS[dtype])
