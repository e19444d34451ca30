"""From tensors to kernels: the arguments, the grid, and the map of tiles to skip.

New here: a kernel gets addresses and strides, so views, slices and expanded heads are read
where they lie and never copied. The grid is flat, because batch x heads can pass 65,535,
the limit of its other axes. Tensors arrive here with four axes (`ops` sees to it).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from attncourse.kernels import blocks, runtime
from attncourse.kernels.delta import delta_kernel
from attncourse.kernels.dkdv import dkdv_kernel
from attncourse.kernels.dq import dq_kernel
from attncourse.kernels.forward import forward_kernel
from attncourse.kernels.runtime import tl, triton

__all__ = ["Options", "backward", "common_arguments", "forward", "strides"]

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


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    alibi_slopes: Tensor | None,
    options: Options,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Launch the forward kernel.

    Parameters
    ----------
    query, key, value : Tensor, shapes (B, H, L, E), (B, Hkv, S, E), (B, Hkv, S, Ev)
        Any strides.
    attn_mask : Tensor, each axis that of (B, H, L, S) or 1, optional
        Boolean or floating point.
    alibi_slopes : Tensor, shape (B, H), optional
        Slopes.
    options : Options
        The rest.

    Returns
    -------
    out : Tensor, shape (B, H, L, Ev)
        Contiguous; 0 in rows that see no key.
    lse, row_max, row_sum : Tensor, shape (B, H, L)
        Log-sum-exp in nats, -inf in rows that see no key; and its two parts, for the backward:
        the largest score (in units of log2 where folded) and the sum of exponentials next to it.
    """
    (batch, num_heads, seq_len_q, _), width = query.shape, value.shape[-1]
    out = query.new_empty(batch, num_heads, seq_len_q, width)
    wide = torch.promote_types(query.dtype, torch.float32)
    lse, row_max, row_sum = (
        query.new_empty(batch, num_heads, seq_len_q, dtype=wide) for _ in range(3)
    )
    tile = _tile("forward", query, value)
    arguments = common_arguments(query, key, value, attn_mask, alibi_slopes, options, tile)
    results = {"out": out, "lse": lse, "row_max_out": row_max, "row_sum_out": row_sum}
    grid = triton.cdiv(seq_len_q, tile.block_m) * batch * num_heads
    _run(forward_kernel, grid, query, arguments | results)
    return out, lse, row_max, row_sum


def backward(
    gradients: tuple[Tensor, Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    alibi_slopes: Tensor | None,
    saved: tuple[Tensor, Tensor, Tensor],
    options: Options,
    want_scores: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Launch the delta, dk/dv and dq kernels.

    Parameters
    ----------
    gradients : two Tensors, shapes (B, H, L, Ev), (B, H, L)
        Those of out and of lse.
    query, key, value, attn_mask, alibi_slopes, options
        As in `forward`.
    saved : three Tensors
        out, row_max and row_sum as `forward` returned them.
    want_scores : bool, default False
        Also return the gradient of the scores; it is as large as the scores.

    Returns
    -------
    dquery, dkey, dvalue, dscores : Tensor
        Contiguous; dscores has shape (B, H, L, S), or (0,) unless it was wanted.
    """
    (dout, dlse), (out, row_max, row_sum) = gradients, saved
    batch, num_heads, seq_len_q, _ = query.shape
    num_kv_heads, seq_len_kv = key.shape[1:3]
    dquery, dkey, dvalue = (query.new_empty(x.shape) for x in (query, key, value))
    shape = (batch, num_heads, seq_len_q, seq_len_kv) if want_scores else (0,)
    dscores = row_max.new_zeros(shape)
    delta = torch.empty_like(row_max)
    _delta(out, dout, dlse, delta)

    read = {"dout": dout, "row_max": row_max, "row_sum": row_sum, "delta": delta}
    read |= strides("dout", "bhle", dout)
    tile = _tile("dkdv", query, value)
    arguments = common_arguments(query, key, value, attn_mask, alibi_slopes, options, tile)
    grid = triton.cdiv(seq_len_kv, tile.block_n) * batch * num_kv_heads
    _run(dkdv_kernel, grid, query, arguments | read | {"dk": dkey, "dv": dvalue})

    tile = _tile("dq", query, value)
    arguments = common_arguments(query, key, value, attn_mask, alibi_slopes, options, tile)
    results = {"dq": dquery, "dscores": dscores, "STORE_SCORES": want_scores}
    grid = triton.cdiv(seq_len_q, tile.block_m) * batch * num_heads
    _run(dq_kernel, grid, query, arguments | read | results)
    return dquery, dkey, dvalue, dscores


def _delta(out: Tensor, dout: Tensor, dlse: Tensor, delta: Tensor) -> None:
    batch, num_heads, seq_len_q, width = out.shape
    block_m = 64 if runtime.INTERPRETED else 32
    arguments = {
        "out": out,
        "dout": dout,
        "dlse": dlse.contiguous(),
        "delta": delta,
        **strides("dout", "bhle", dout),
        "num_heads": num_heads,
        "seq_len_q": seq_len_q,
        "EV": width,
        "BLOCK_EV": blocks.block_width(width),
        "BLOCK_M": block_m,
        "ACC": _accumulator(out),
    }
    _run(delta_kernel, triton.cdiv(seq_len_q, block_m) * batch * num_heads, out, arguments)


def common_arguments(
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
    folded = attn_mask is None or attn_mask.dtype == torch.bool
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
        "ACC": _accumulator(query),
        "num_warps": tile.num_warps,
        "num_stages": tile.num_stages,
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


def _tile(kernel: str, query: Tensor, value: Tensor) -> blocks.Tile:
    width = max(query.shape[-1], value.shape[-1])
    return blocks.choose(kernel, runtime.device_arch(query), width, query.element_size())


def _accumulator(tensor: Tensor) -> Any:
    return tl.float64 if tensor.dtype == torch.float64 else tl.float32


def _two_floats(number: float) -> tuple[float, float]:
    """Split a float64 into a float32 and the rest."""
    high = torch.tensor(number, dtype=torch.float32).item()
    return high, number - high


def _run(kernel: Any, grid: int, where: Tensor, arguments: dict[str, Any]) -> None:
    """Launch a kernel on the device of a tensor, unless there is nothing to do."""
    if not grid:
        return
    # What lies outside the sequences is computed and thrown away, on a GPU without a word.
    with torch.cuda.device_of(where), np.errstate(all="ignore"):
        kernel[(grid,)](**arguments)
