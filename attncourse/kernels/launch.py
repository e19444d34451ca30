"""From tensors to kernel launches: which kernel, on which grid, writing where.

New here: the backward is three launches. The grid is flat, because batch x heads can pass
65,535, the limit of its other axes. Tensors arrive with four axes (the rung sees to it).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attncourse.call import Call
from attncourse.kernels import blocks, runtime
from attncourse.kernels.arguments import accumulator, common, is_heavy, new_results, strides
from attncourse.kernels.delta import delta_kernel
from attncourse.kernels.dkdv import dkdv_kernel
from attncourse.kernels.dq import dq_kernel
from attncourse.kernels.forward import forward_kernel
from attncourse.kernels.runtime import triton

__all__ = ["backward", "forward"]


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    call: Call,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Launch the forward kernel.

    Parameters
    ----------
    query, key, value : Tensor, shapes (B, H, L, E), (B, Hkv, S, E), (B, Hkv, S, Ev)
        Any strides.
    call : Call
        The rest. Each axis of a mask is that of (B, H, L, S) or 1; slopes have shape (B, H).

    Returns
    -------
    out : Tensor, shape (B, H, L, Ev)
        Contiguous; 0 in rows that see no key.
    lse, row_max, row_sum : Tensor, shape (B, H, L)
        Log-sum-exp in nats, -inf in rows that see no key; and its two parts, for the backward,
        0 and 1 in such rows. Without a float mask row_sum is empty, and row_max the whole
        log-sum-exp to base 2.
    """
    batch, num_heads, seq_len_q, _ = query.shape
    out, lse, row_max, row_sum = new_results(query, value, call.attn_mask)
    tile = _tile("forward", query, value, call)
    arguments = common(query, key, value, call, tile)
    results = {"out": out, "lse": lse, "row_max_out": row_max, "row_sum_out": row_sum}
    grid = triton.cdiv(seq_len_q, tile.block_m) * batch * num_heads
    _run(forward_kernel, grid, query, arguments | results)
    return out, lse, row_max, row_sum


def backward(
    gradients: tuple[Tensor, Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    call: Call,
    saved: tuple[Tensor, Tensor, Tensor],
    want_scores: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Launch the delta, dk/dv and dq kernels.

    Parameters
    ----------
    gradients : two Tensors, shapes (B, H, L, Ev), (B, H, L)
        Those of out and of lse.
    query, key, value, call
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

    read: dict[str, Any] = {"dout": dout, "row_max": row_max, "row_sum": row_sum, "delta": delta}
    read |= strides("dout", "bhle", dout)
    tile = _tile("dkdv", query, value, call)
    arguments = common(query, key, value, call, tile)
    grid = triton.cdiv(seq_len_kv, tile.block_n) * batch * num_kv_heads
    _run(dkdv_kernel, grid, query, arguments | read | {"dk": dkey, "dv": dvalue})

    tile = _tile("dq", query, value, call)
    arguments = common(query, key, value, call, tile)
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
        "ACC": accumulator(out),
    }
    _run(delta_kernel, triton.cdiv(seq_len_q, block_m) * batch * num_heads, out, arguments)


def _tile(kernel: str, query: Tensor, value: Tensor, call: Call) -> blocks.Tile:
    width, arch = max(query.shape[-1], value.shape[-1]), runtime.device_arch(query)
    return blocks.choose(kernel, arch, width, query.element_size(), is_heavy(call))


def _run(kernel: Any, grid: int, where: Tensor, arguments: dict[str, Any]) -> None:
    """Launch a kernel on the device of a tensor, unless there is nothing to do."""
    if not grid:
        return
    # What lies outside the sequences is computed and thrown away, on a GPU without a word.
    with torch.cuda.device_of(where), np.errstate(all="ignore"):
        kernel[(grid,)](**arguments)
