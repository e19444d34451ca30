"""From tensors to the arguments of a kernel, and the map of tiles to skip.

New here: a kernel gets addresses and strides, so views, slices and expanded heads are read
where they lie and never copied. Nothing is launched here, so `compiled` can use the same
arguments on a machine without a GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from attncourse.kernels import blocks, runtime
from attncourse.kernels.runtime import tl

__all__ = ["Options", "accumulator", "common", "is_folded", "new_results", "strides"]

_LOG2E = math.log2(math.e)
_NO_STRIDES = (0, 0, 0, 0)


@dataclass(frozen=True)
class Options:
    """The arguments of attention that are not tensors.

    Attributes
    ----------
    scale : float
        Multiplies the dot products.
    is_causal : bool
        Hide the keys after each query.
    shift : int
        Query i stands at key position i + shift.
    window_size : int
        0 for none.
    softcap : float
        0 for none.
    dropout_p : float
        0 for none.
    dropout_seed : int
        As a signed 64-bit number.
    """

    scale: float
    is_causal: bool = False
    shift: int = 0
    window_size: int = 0
    softcap: float = 0.0
    dropout_p: float = 0.0
    dropout_seed: int = 0

    @property
    def is_heavy(self) -> bool:
        """Tell whether a tile needs room for more than scores and weights."""
        return self.softcap > 0 or self.dropout_p > 0 or self.window_size > 0


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
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    alibi_slopes: Tensor | None,
    options: Options,
    tile: blocks.Tile,
) -> dict[str, Any]:
    """Collect the arguments that the forward, dk/dv and dq kernels share.

    Parameters
    ----------
    query, key, value, attn_mask, alibi_slopes, options
        As in `forward`.
    tile : Tile
        The size of a tile.

    Returns
    -------
    dict
        Keyword arguments of a kernel.
    """
    folded = is_folded(attn_mask)
    unit = _LOG2E if folded else 1.0
    scale_high, scale_low = _two_floats(options.scale * unit)
    keep_scale = 1 / (1 - options.dropout_p)
    return {
        "q": query,
        "k": key,
        "v": value,
        **strides("q", "bhle", query),
        **strides("k", "bhse", key),
        **strides("v", "bhse", value),
        **_mask_arguments(attn_mask, (*query.shape[:3], key.shape[2]), tile),
        "slopes": alibi_slopes,
        **strides("slopes", "bh", alibi_slopes),
        "num_heads": query.shape[1],
        "group": query.shape[1] // max(key.shape[1], 1),
        "seq_len_q": query.shape[2],
        "seq_len_kv": key.shape[2],
        "shift": options.shift,
        "window": min(options.window_size, query.shape[2] + key.shape[2]),
        "scale_high": scale_high,
        "scale_low": scale_low,
        "seed": options.dropout_seed,
        "threshold": round(options.dropout_p * 2**32),
        "E": query.shape[3],
        "EV": value.shape[3],
        "BLOCK_E": blocks.block_width(query.shape[3]),
        "BLOCK_EV": blocks.block_width(value.shape[3]),
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "CAUSAL": options.is_causal,
        "WINDOW": options.window_size > 0,
        "ALIBI": alibi_slopes is not None,
        "SOFTCAP": options.softcap * unit,
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
