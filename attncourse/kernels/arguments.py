"""From tensors to the arguments of a kernel, and the map of tiles to skip.

New here: a kernel gets addresses and strides, so views, slices and expanded heads are read
where they lie and never copied. Nothing is launched here, so `compiled` can use the same
arguments on a machine without a GPU.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from attncourse.call import Call
from attncourse.kernels import blocks, runtime
from attncourse.kernels.runtime import tl

__all__ = [
    "accumulator",
    "common",
    "flat",
    "is_folded",
    "is_heavy",
    "new_results",
    "strides",
    "unflat",
]

_LOG2E = math.log2(math.e)
_NO_STRIDES = (0, 0, 0, 0)


def flat(call: Call) -> tuple[Any, ...]:
    """Spell what a call fixes beside its tensors as an operator's schema wants it.

    Returns
    -------
    scale, is_causal, shift, window_size, softcap, dropout_p, dropout_seed
        0 for no window and no softcap; the seed as a signed 64-bit number.
    """
    seed = call.dropout_seed or 0
    seed = seed - 2**64 if seed >= 2**63 else seed
    limits = (call.is_causal, call.shift, call.window_size or 0)
    return call.scale, *limits, call.softcap or 0.0, call.dropout_p, seed


def unflat(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None,
    alibi_slopes: Tensor | None,
    scale: float,
    is_causal: bool,
    shift: int,
    window_size: int,
    softcap: float,
    dropout_p: float,
    dropout_seed: int,
) -> Call:
    """Undo `flat`, and join masks and slopes to the rest of the call again."""
    return Call(
        (0, query.shape[-2]),
        (0, key.shape[-2]),
        scale,
        attn_mask,
        dropout_p,
        is_causal,
        shift,
        window_size or None,
        softcap or None,
        alibi_slopes,
        dropout_seed,
    )


def is_heavy(call: Call) -> bool:
    """Tell whether a tile needs room for more than scores and weights."""
    extras = (call.attn_mask, call.alibi_slopes, call.softcap, call.window_size)
    return call.dropout_p > 0 or any(extra is not None for extra in extras)


def is_folded(attn_mask: Tensor | None) -> bool:
    """Tell whether scores carry log2(e), as all but those with a float mask do."""
    return attn_mask is None or attn_mask.dtype == torch.bool


def new_results(
    query: Tensor, value: Tensor, attn_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Make room for what the forward kernel stores.

    Parameters
    ----------
    query, value, attn_mask
        As in `attncourse.kernels.launch.forward`.

    Returns
    -------
    out, lse, row_max, row_sum : Tensor
        Not filled; row_sum is empty where row_max will contain its logarithm.
    """
    wide = torch.promote_types(query.dtype, torch.float32)
    rows = query.shape[:-1]
    lse, row_max = (query.new_empty(rows, dtype=wide) for _ in range(2))
    row_sum = query.new_empty((0,) if is_folded(attn_mask) else rows, dtype=wide)
    return query.new_empty(*rows, value.shape[-1]), lse, row_max, row_sum


def common(
    query: Tensor, key: Tensor, value: Tensor, call: Call, tile: blocks.Tile
) -> dict[str, Any]:
    """Collect the arguments that the forward, dk/dv and dq kernels share.

    Parameters
    ----------
    query, key, value, call
        As in `attncourse.kernels.launch.forward`.
    tile : Tile
        The size of a tile.

    Returns
    -------
    dict
        Keyword arguments of a kernel.
    """
    folded = is_folded(call.attn_mask)
    unit = _LOG2E if folded else 1.0
    scale_high, scale_low = _two_floats(call.scale * unit)
    keep_scale = 1 / (1 - call.dropout_p)
    return {
        "q": query,
        "k": key,
        "v": value,
        **strides("q", "bhle", query),
        **strides("k", "bhse", key),
        **strides("v", "bhse", value),
        **_mask_arguments(call.attn_mask, (*query.shape[:3], key.shape[2]), tile),
        "slopes": call.alibi_slopes,
        **strides("slopes", "bh", call.alibi_slopes),
        "num_heads": query.shape[1],
        "group": query.shape[1] // max(key.shape[1], 1),
        "seq_len_q": query.shape[2],
        "seq_len_kv": key.shape[2],
        "shift": call.shift,
        "window": min(call.window_size or 0, query.shape[2] + key.shape[2]),
        "scale_high": scale_high,
        "scale_low": scale_low,
        "seed": call.dropout_seed or 0,
        "threshold": round(call.dropout_p * 2**32),
        "E": query.shape[3],
        "EV": value.shape[3],
        "BLOCK_E": blocks.block_width(query.shape[3]),
        "BLOCK_EV": blocks.block_width(value.shape[3]),
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "CAUSAL": call.is_causal,
        "WINDOW": call.window_size is not None,
        "ALIBI": call.alibi_slopes is not None,
        "SOFTCAP": (call.softcap or 0.0) * unit,
        "KEEP_SCALE": keep_scale,
        "FOLDED": folded,
        "UPCAST": runtime.INTERPRETED and query.dtype == torch.bfloat16,
        "ACC": accumulator(query),
        "num_warps": tile.num_warps,
        "num_stages": tile.num_stages,
        "maxnreg": blocks.registers(max(query.shape[3], value.shape[3]), query.element_size()),
    }


def _mask_arguments(
    attn_mask: Tensor | None, shape: tuple[int, ...], tile: blocks.Tile
) -> dict[str, Any]:
    """Describe the mask, and mark the tiles in which it lets anything through."""
    if attn_mask is None:
        nowhere = strides("mask", "bhls", None) | strides("busy", "bhls", None)
        return {"mask": None, "busy": None, "MASK": "none", **nowhere}
    is_bool = attn_mask.dtype == torch.bool
    seen = attn_mask if is_bool else attn_mask != -torch.inf
    busy = _any_in_tile(seen, tile.block_m, tile.block_n)
    counts = (math.ceil(shape[2] / tile.block_m), math.ceil(shape[3] / tile.block_n))
    mask = (attn_mask.view(torch.uint8) if is_bool else attn_mask).expand(shape)
    busy = busy.expand(*shape[:2], *counts)
    where = strides("mask", "bhls", mask) | strides("busy", "bhls", busy)
    return {"mask": mask, "busy": busy, "MASK": "bool" if is_bool else "float", **where}


def _any_in_tile(seen: Tensor, block_m: int, block_n: int) -> Tensor:
    """Reduce (b, h, l, s) to one uint8 a tile; an axis of 1 stays 1."""
    for axis, block in ((2, block_m), (3, block_n)):
        if seen.shape[axis] > 1:
            missing = -seen.shape[axis] % block
            seen = pad(seen, (0, 0, 0, missing) if axis == 2 else (0, missing))
            seen = seen.unflatten(axis, (-1, block)).any(axis + 1)
    return seen.view(torch.uint8)


def strides(name: str, axes: str, tensor: Tensor | None) -> dict[str, int]:
    """Name the strides of a tensor, one letter an axis; 0 without a tensor.

    Returns
    -------
    dict
        Keys such as ``q_stride_b``; values in numbers, not in bytes.
    """
    steps = _NO_STRIDES if tensor is None else tensor.stride()
    return {f"{name}_stride_{axis}": step for axis, step in zip(axes, steps, strict=False)}


def accumulator(tensor: Tensor) -> Any:
    """Tell in which type sums over a tensor are kept: float32 or wider."""
    return tl.float64 if tensor.dtype == torch.float64 else tl.float32


def _two_floats(number: float) -> tuple[float, float]:
    """Split a float64 into a float32 and the rest."""
    high = torch.tensor(number, dtype=torch.float32).item()
    return high, number - high
