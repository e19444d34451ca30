"""From a call of `attention` to a rung: check, name the features it needs, choose, convert.

Left out: any arithmetic of attention itself.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from importlib.util import find_spec
from typing import Any

import numpy as np

from attncourse import _validate, masks, scores
from attncourse.rungs._ladder import FEATURES, LADDER, Rung

_AUTO = {"numpy": ("matmul", "batched"), "torch": ("sdpa", "recompute", "batched")}
_HAS_TRITON = find_spec("triton") is not None  # asked here, where torch.compile does not trace
_LOWERED_BY_AUTOCAST = ("sdpa", "triton_forward", "triton")
_BY_ARGUMENT = {
    "is_causal": "causal",
    "window_size": "window",
    "softcap": "softcap",
    "alibi_slopes": "alibi",
    "enable_gqa": "gqa",
    "causal_align": "bottom_right",
    "dropout_p": "dropout",
    "dropout_seed": "dropout_seed",
    "return_lse": "lse",
}


def import_ahead() -> None:
    """Import the torch rungs where torch is loaded: torch.compile cannot follow an import."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    for rung in LADDER:
        if "triton" not in rung.name or (_HAS_TRITON and torch.cuda.is_available()):
            getattr(rung.function, "__wrapped__", None)


def checked_call(query: Any, key: Any, value: Any, **given: Any) -> dict[str, Any]:
    """Check every argument, and keep those that change something.

    Parameters
    ----------
    query, key, value : ndarray or Tensor
        As given to `attention`.
    **given
        Its other arguments, all of them.

    Returns
    -------
    dict
        The arguments that differ from their defaults, masks and slopes as arrays of the
        query's library.

    Raises
    ------
    ValueError, TypeError
        As `attention` documents.
    """
    _validate.library_of(query, key, value)
    _validate.dtypes(query, key, value)
    _validate.shapes(query, key, value, given["enable_gqa"])
    _validate.options(**given)
    _as_plain_numbers(given, query.shape[-2] + key.shape[-2])
    if given["attn_mask"] is not None:
        given["attn_mask"] = _alike(given["attn_mask"], query)
        _validate.mask(given["attn_mask"], (*query.shape[:-1], key.shape[-2]))
    if given["alibi_slopes"] is not None:
        given["alibi_slopes"] = _alike(given["alibi_slopes"], query)
        _validate.slopes(given["alibi_slopes"], tuple(query.shape))
    given["enable_gqa"] = query.ndim > 2 and query.shape[-3] != key.shape[-3]
    pinned = given["is_causal"] or given["alibi_slopes"] is not None
    if given["causal_align"] == "top_left" or not pinned:
        del given["causal_align"]
    if not given["dropout_p"]:
        del given["dropout_seed"]
    for switch in ("dropout_p", "is_causal", "enable_gqa", "return_lse"):
        given[switch] = given[switch] or None
    return {name: argument for name, argument in given.items() if argument is not None}


def needed_features(query: Any, key: Any, value: Any, call: dict[str, Any]) -> frozenset[str]:
    """Name the features that a call asks for.

    Returns
    -------
    frozenset of str
        Keys of `FEATURES`.
    """
    needs = {feature for argument, feature in _BY_ARGUMENT.items() if argument in call}
    if query.ndim > 2:
        needs.add("batch")
    if "attn_mask" in call:
        needs.add("bool_mask" if _validate.is_bool(call["attn_mask"]) else "float_mask")
    if _wants_grad(query, key, value, call.get("attn_mask"), call.get("alibi_slopes")):
        needs.add("grad")
    return frozenset(needs)


def pick(query: Any, value: Any, needs: frozenset[str]) -> Rung:
    """Choose for ``rung="auto"``: the fastest rung that has every feature needed.

    Raises
    ------
    NotImplementedError
        When no rung of the query's library has them all.
    """
    numpy = isinstance(query, np.ndarray)
    names = _AUTO["numpy" if numpy else "torch"]
    if not numpy and query.device.type == "cuda" and _runs_triton(query, value):
        names = ("triton", *names)
    rungs = {rung.name: rung for rung in LADDER}
    for name in names:
        if name in rungs and needs <= rungs[name].features:
            return rungs[name]
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


def run(
    rung: Rung, needs: frozenset[str], query: Any, key: Any, value: Any, call: dict[str, Any]
) -> Any:
    """Run one rung on arrays of either library; what comes in goes out.

    Raises
    ------
    TypeError
        When a NumPy rung is given tensors that need gradients.
    NotImplementedError
        When the rung lacks a feature that the call needs; both are named.
    """
    missing = sorted(needs - rung.features)
    if rung.library == "numpy" and "grad" in missing:
        raise TypeError(
            f"rung {rung.name!r} computes with NumPy and cannot return gradients, but an input "
            "has requires_grad=True; detach it, or take a torch rung"
        )
    if missing:
        having = [other.name for other in LADDER if needs <= other.features]
        raise NotImplementedError(
            f"rung {rung.name!r} does not have {', '.join(missing)} "
            f"({'; '.join(FEATURES[name] for name in missing)}); rungs that do: {having}"
        )
    if "dropout_p" in call and "dropout_seed" in rung.features:
        call.setdefault("dropout_seed", _fresh_seed(query))
    if "grad" in needs:
        query = _without_blind_rows(query, key.shape[-2], call)
    function = getattr(rung.function, "__wrapped__", rung.function)  # says so if torch is missing
    convert = _to_numpy if rung.library == "numpy" else _to_torch
    with _precision(rung, query):
        result = function(*map(convert, (query, key, value)), **_each(convert, call))
    if isinstance(result, tuple):
        return _give_back(result[0], query), _give_back(result[1], query, keep_dtype=True)
    return _give_back(result, query)


def _precision(rung: Rung, query: Any) -> Any:
    """Let autocast lower only those rungs that lower precision well: PyTorch's and the kernels.

    The others promise sums and an lse of at least float32, and would get products rounded to half.
    """
    torch = sys.modules.get("torch")
    if torch is None or rung.library == "numpy" or isinstance(query, np.ndarray):
        return nullcontext()
    device = query.device.type
    if rung.name in _LOWERED_BY_AUTOCAST or not torch.is_autocast_enabled(device):
        return nullcontext()
    return torch.autocast(device, enabled=False)


def _as_plain_numbers(given: dict[str, Any], longest: int) -> None:
    """Turn fractions and NumPy scalars into Python's numbers; no window need be longer."""
    for name in ("dropout_p", "scale", "softcap"):
        if given[name] is not None:
            given[name] = float(given[name])
    if given["window_size"] is not None:
        given["window_size"] = min(int(given["window_size"]), max(longest, 1))
    if given["dropout_seed"] is not None:
        given["dropout_seed"] = int(given["dropout_seed"])


def _without_blind_rows(query: Any, seq_len_kv: int, call: dict[str, Any]) -> Any:
    """Zero the queries that the mask, or causality, leaves without a key.

    Their scores are hidden, but a NaN in them would still reach the gradients of the keys.
    """
    seq_len_q = query.shape[-2]
    rows, cols = slice(0, seq_len_q), slice(0, seq_len_kv)
    if "attn_mask" in call:
        query = scores.drop_blind(query, scores.allowed(query, rows, cols, call["attn_mask"]))
    if "is_causal" in call:
        shift = masks.offset(seq_len_q, seq_len_kv, call.get("causal_align", "top_left"))
        window_size = call.get("window_size", seq_len_q + seq_len_kv)
        if shift < 0 or seq_len_q + shift - window_size >= seq_len_kv:  # else none is blind
            own = scores.gap(query, rows, slice(0, 1), shift)  # (L, 1), a position among the keys
            oldest = own - window_size + 1
            query = scores.drop_blind(query, (own >= 0) & (oldest < seq_len_kv))
    return query


def _each(convert: Any, call: dict[str, Any]) -> dict[str, Any]:
    arrays = ("attn_mask", "alibi_slopes")
    return {name: convert(arg) if name in arrays else arg for name, arg in call.items()}


def _to_numpy(array: Any) -> np.ndarray:
    """Return a NumPy array, at least float32 when it holds numbers."""
    if not isinstance(array, np.ndarray):
        array = array.detach().cpu()
        array = (array.float() if array.element_size() == 2 else array).numpy()
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _to_torch(array: Any) -> Any:
    import torch

    return torch.from_numpy(array.copy()) if isinstance(array, np.ndarray) else array


def _give_back(result: Any, like: Any, keep_dtype: bool = False) -> Any:
    """Turn a result into the library and device of `like`, and into its type."""
    if isinstance(like, np.ndarray):
        result = result if isinstance(result, np.ndarray) else result.numpy()
        return result if keep_dtype else result.astype(like.dtype, copy=False)
    if isinstance(result, np.ndarray):
        result = _to_torch(result).to(like.device)
    return result if keep_dtype or result.dtype == like.dtype else result.to(like.dtype)


def _alike(array: Any, query: Any) -> Any:
    """Bring a mask or slopes to the query's library, device and working precision."""
    if isinstance(array, list | tuple | np.generic):
        array = np.asarray(array)
    _validate.library_of(array)
    if isinstance(query, np.ndarray):
        array = _to_numpy(array)
        if not _validate.is_float(array):
            return array
        wide = np.promote_types(query.dtype, np.float32)
        return _within(array, np.finfo(wide)).astype(wide)
    import torch

    array = _to_torch(array).to(query.device)
    if not _validate.is_float(array):
        return array
    wide_type = torch.promote_types(query.dtype, torch.float32)
    return _within(array, torch.finfo(wide_type)).to(wide_type)


def _within(array: Any, limits: Any) -> Any:
    """Keep finite numbers finite in a narrower type: only -inf may hide."""
    if array.dtype.itemsize * 8 <= limits.bits:
        return array
    library = _validate.library_of(array)
    finite = library.clip(array, float(limits.min), float(limits.max))
    return library.where(library.isinf(array), array, finite)


def _wants_grad(*arrays: Any) -> bool:
    torch = sys.modules.get("torch")
    if torch is None or not torch.is_grad_enabled():
        return False
    return any(getattr(array, "requires_grad", False) for array in arrays)


def _fresh_seed(query: Any) -> int:
    """Draw a seed from the library's own generator, so that `manual_seed` fixes it."""
    if isinstance(query, np.ndarray):
        return int(np.random.default_rng().integers(2**63))
    import torch

    return int(torch.randint(2**63 - 1, ()).item())
