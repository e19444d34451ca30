"""From a call of `attention` to a rung: check, name the features it needs, choose, convert.

Left out: any arithmetic of attention itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Set
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from attncourse._convert import from_numpy, give_back, to_numpy, without_autocast
from attncourse.call import Call
from attncourse.features import FEATURES
from attncourse.rungs._ladder import LADDER, Rung, by_name

_AUTO = {"numpy": ("matmul", "batched"), "torch": ("sdpa", "recompute", "batched")}
_HAS_TRITON = find_spec("triton") is not None  # asked here, where torch.compile does not trace


def import_ahead() -> None:
    """Import the torch rungs where torch is loaded: torch.compile cannot follow an import."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    for rung in LADDER:
        if rung.package is None or (_HAS_TRITON and torch.cuda.is_available()):
            getattr(rung, "attend", None)


def pick(query: Any, value: Any, needs: Set[str], transforms: bool = False) -> Rung:
    """Choose for ``rung="auto"``: the fastest rung that has every feature needed.

    With `transforms`, one that `torch.func` and forward-mode derivatives reach into. PyTorch's
    backward pass makes weights from one float32 lse a row. Where a float mask lifts a row far
    from 0 they come out wrong, so with gradients such a call goes to another rung.

    Raises
    ------
    NotImplementedError
        When no rung of the query's library has them all.
    """
    numpy = isinstance(query, np.ndarray)
    names = _AUTO["numpy" if numpy else "torch"]
    if not numpy and query.device.type == "cuda" and _runs_triton(query, value):
        names = ("triton", *names)
    for name in names:
        rung = by_name(name)
        if name == "sdpa" and "float_mask" in needs and "grad" in needs:
            continue
        if needs <= rung.features and rung.transforms >= transforms:
            return rung
    raise NotImplementedError(f"no rung has all of {sorted(needs)} for {type(query).__name__}")


def _runs_triton(query: Any, value: Any) -> bool:
    """Tell whether Triton is there, on a GPU that it uses well, for heads that fit its tiles."""
    import torch

    from attncourse.kernels import blocks

    width = max(query.shape[-1], value.shape[-1])
    return (
        _HAS_TRITON
        and torch.cuda.get_device_capability(query.device) >= (8, 0)
        and blocks.fits(width, query.element_size())
    )


def run(rung: Rung, needs: Set[str], query: Any, key: Any, value: Any, call: Call) -> Any:
    """Run one rung on arrays of either library; what comes in goes out.

    Raises
    ------
    TypeError
        When a NumPy rung is given tensors that need gradients.
    NotImplementedError
        When the rung lacks a feature that the call needs; both are named.
    """
    if not needs <= rung.features:
        _refuse(rung, needs)
    if not rung.transforms and is_transformed(query, key, value, call):
        _refuse_transforms(rung)
    if call.dropout_p and call.dropout_seed is None and "dropout_seed" in rung.features:
        call = replace(call, dropout_seed=_fresh_seed(query))
    inputs = [call.without_blind(query) if call.has_grad else query, key, value]
    attend = rung.attend  # says so if torch is missing
    if rung.library == "numpy":  # where half precision has too little room
        inputs = [to_numpy(array) for array in inputs]
    if rung.library != ("numpy" if isinstance(query, np.ndarray) else "torch"):
        convert = to_numpy if rung.library == "numpy" else _to_torch
        inputs, call = [convert(array) for array in inputs], _converted(convert, call)
    with _precision(rung, inputs[0]):
        out, lse = attend(*inputs, call)
    out = give_back(out, query)
    return (out, give_back(lse, query, keep_dtype=True)) if call.return_lse else out


def _refuse(rung: Rung, needs: Set[str]) -> None:
    """Name the rung, what it lacks, and the rungs that have it."""
    missing = sorted(needs - rung.features)
    if rung.library == "numpy" and "grad" in missing:
        raise TypeError(
            f"rung {rung.name!r} computes with NumPy and cannot return gradients, but an input "
            "has requires_grad=True; detach it, or take a torch rung"
        )
    having = [other.name for other in LADDER if needs <= other.features]
    raise NotImplementedError(
        f"rung {rung.name!r} does not have {', '.join(missing)} "
        f"({'; '.join(FEATURES[name] for name in missing)}); rungs that do: {having}"
    )


def _refuse_transforms(rung: Rung) -> None:
    """Name the rung, and those that transforms reach into."""
    having = [other.name for other in LADDER if other.transforms and other.library == "torch"]
    raise NotImplementedError(
        f"rung {rung.name!r} does not work inside torch.func (vmap, grad, jvp), nor with "
        f"forward-mode derivatives; rungs that do: {having}"
    )


def is_transformed(query: Any, key: Any, value: Any, call: Call) -> bool:
    """Tell whether `torch.func` is at work, or an input carries a forward-mode derivative."""
    torch = sys.modules.get("torch")
    if torch is None or isinstance(query, np.ndarray):
        return False
    if torch._C._are_functorch_transforms_active():
        return True
    duals = torch.autograd.forward_ad
    if duals._current_level < 0:
        return False
    arrays = [query, key, value, call.attn_mask, call.alibi_slopes]
    return any(x is not None and duals.unpack_dual(x).tangent is not None for x in arrays)


def _precision(rung: Rung, query: Any) -> Any:
    """Let autocast lower only those rungs that lower precision well: PyTorch's and the kernels.

    The others promise sums and an lse of at least float32, and would get products rounded to half.
    """
    return nullcontext() if rung.autocast or rung.library == "numpy" else without_autocast(query)


def _converted(convert: Callable[[Any], Any], call: Call) -> Call:
    """Bring masks and slopes to the other library."""
    arrays = (call.attn_mask, call.alibi_slopes)
    mask, slopes = (None if array is None else convert(array) for array in arrays)
    return replace(call, attn_mask=mask, alibi_slopes=slopes)


def _to_torch(array: np.ndarray) -> Any:
    import torch

    return from_numpy(array, torch)


def _fresh_seed(query: Any) -> int:
    """Draw a seed from the library's own generator, so that `manual_seed` fixes it."""
    if isinstance(query, np.ndarray):
        return int(np.random.default_rng().integers(2**63))
    import torch

    return int(torch.randint(2**63 - 1, ()).item())
