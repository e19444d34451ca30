"""Rung 8, triton_forward: the tiled forward as one GPU kernel.

New here: the loop over strips of queries disappears. A GPU runs one program for every
strip of every head, all at once and in no order, and each is the inner loop of rung
`tiled`: take a block of keys, shrink the old sums, add the new. Nothing but the inputs,
the output and one number a query ever stands in the GPU's main memory.

Left out: gradients, every mask but the causal one, and whatever would make the kernel
longer (rung `triton` has it all). Without a GPU, Triton's interpreter runs the kernel.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from attncourse.call import Call
from attncourse.kernels import blocks, runtime
from attncourse.kernels.runtime import tl, triton

LOG2E = math.log2(math.e)
LN2 = tl.constexpr(math.log(2))


# fmt: off
@triton.jit
def forward_kernel(
    q, k, v, out, lse, scale, shift, seq_len_q, seq_len_kv, group,
    E: tl.constexpr, EV: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_EV: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, UPCAST: tl.constexpr, ACC: tl.constexpr,
):
    """Attend for BLOCK_M queries of one head; every array is contiguous."""
    num_strips = tl.cdiv(seq_len_q, BLOCK_M)
    # Heads are counted through the batch; 64 bits, for the offsets below.
    head = (tl.program_id(0) // num_strips).to(tl.int64)
    rows = tl.program_id(0) % num_strips * BLOCK_M + tl.arange(0, BLOCK_M)
    e, ev = tl.arange(0, BLOCK_E)[None, :], tl.arange(0, BLOCK_EV)[None, :]
    e_ok, ev_ok = e < E, ev < EV
    row_at = (head * seq_len_q + rows)[:, None]
    row_ok = (rows < seq_len_q)[:, None]
    queries = tl.load(q + row_at * E + e, mask=row_ok & e_ok, other=0.0)
    queries = queries.to(tl.float32) if UPCAST else queries
    row_max = tl.full([BLOCK_M], float("-inf"), ACC)
    row_sum = tl.zeros([BLOCK_M], ACC)
    acc = tl.zeros([BLOCK_M, BLOCK_EV], ACC)
    stop = seq_len_kv
    if CAUSAL:  # the last query of the strip sees the most keys
        last = tl.minimum(tl.max(rows, 0), seq_len_q - 1)
        stop = tl.minimum(seq_len_kv, tl.maximum(last + shift + 1, 0))

    for col0 in range(0, stop, BLOCK_N):
        cols = col0 + tl.arange(0, BLOCK_N)
        col_at = (head // group * seq_len_kv + cols)[:, None]
        col_ok = (cols < stop)[:, None]
        keys = tl.load(k + col_at * E + e, mask=col_ok & e_ok, other=0.0)
        values = tl.load(v + col_at * EV + ev, mask=col_ok & ev_ok, other=0.0)
        keys = keys.to(tl.float32) if UPCAST else keys
        values = values.to(tl.float32) if UPCAST else values
        scores = tl.dot(
            queries, tl.trans(keys), input_precision="ieee", out_dtype=ACC
        ) * scale
        seen = (cols < seq_len_kv)[None, :]
        if CAUSAL:
            seen = seen & (rows[:, None] + shift >= cols[None, :])
        scores = tl.where(seen, scores, float("-inf"))  # [BLOCK_M, BLOCK_N]
        new_max = tl.maximum(row_max, tl.max(scores, 1))
        centre = tl.where(new_max == float("-inf"), 0.0, new_max)
        weights = tl.exp2(scores - centre[:, None])
        shrink = tl.exp2(row_max - centre)
        row_sum = row_sum * shrink + tl.sum(weights, 1)
        acc = acc * shrink[:, None]
        weights = weights.to(values.dtype)
        acc = tl.dot(
            weights, values, acc, input_precision="ieee", out_dtype=ACC
        )
        row_max = new_max

    total = tl.where(row_sum == 0.0, 1.0, row_sum)
    nats = (row_max + tl.log2(total)) * LN2  # -inf where nothing was seen
    tl.store(lse + head * seq_len_q + rows, nats, mask=rows < seq_len_q)
    acc = (acc / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + row_at * EV + ev, acc, mask=row_ok & ev_ok)
# fmt: on


def attend(q: Tensor, k: Tensor, v: Tensor, call: Call) -> tuple[Tensor, Tensor]:
    """Launch the kernel: one program for every strip of queries of every head.

    Parameters
    ----------
    q, k, v : Tensor, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Any floating-point type; copied where they are not contiguous.
    call : Call
        What else was asked for: the scale and causality.

    Returns
    -------
    out : Tensor, shape (..., H, L, Ev)
        0 in rows that see no key.
    lse : Tensor, shape (..., H, L)
        In nats, float32 or wider; -inf in rows that see no key.

    Raises
    ------
    ImportError, RuntimeError, ValueError
        When Triton is missing, was imported in the wrong mode, or cannot read the device.

    Notes
    -----
    Scores carry log2(e), so that one exp2 makes a weight: that is what a GPU computes. Each
    strip reads all keys and values that it sees: (L / BLOCK_M) · S · (E + Ev) numbers a head.
    **Source:** Dao et al. 2022, Algorithm 1 (arXiv:2205.14135); Tillet et al. 2019 (Triton).
    """
    return launch(q, k, v, call.scale, call.is_causal, call.shift)


def empty_results(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    """Make room for out and lse."""
    wide = torch.promote_types(query.dtype, torch.float32)
    out = query.new_empty(*query.shape[:-1], value.shape[-1])
    return out, query.new_empty(query.shape[:-1], dtype=wide)


@torch.library.custom_op("attncourse::triton_forward", mutates_args=())
def launch(
    query: Tensor, key: Tensor, value: Tensor, scale: float, is_causal: bool, shift: int
) -> tuple[Tensor, Tensor]:
    """Start one program for every strip; an operator, so that torch.compile can call it."""
    runtime.check_device(query)
    (seq_len_q, width), (seq_len_kv, width_v) = query.shape[-2:], value.shape[-2:]
    num_heads, num_kv_heads = math.prod(query.shape[:-2]), math.prod(key.shape[:-2])
    out, lse = empty_results(query, key, value)
    tile = blocks.choose(
        "forward", runtime.device_arch(query), max(width, width_v), query.element_size()
    )
    grid = triton.cdiv(seq_len_q, tile.block_m) * num_heads
    if grid:
        with torch.cuda.device_of(query):
            forward_kernel[(grid,)](
                *(array.contiguous() for array in (query, key, value)),
                out,
                lse,
                scale * LOG2E,
                shift,
                seq_len_q,
                seq_len_kv,
                num_heads // num_kv_heads,
                E=width,
                EV=width_v,
                BLOCK_E=blocks.block_width(width),
                BLOCK_EV=blocks.block_width(width_v),
                BLOCK_M=tile.block_m,
                BLOCK_N=tile.block_n,
                CAUSAL=is_causal,
                UPCAST=runtime.INTERPRETED and query.dtype == torch.bfloat16,
                ACC=tl.float64 if query.dtype == torch.float64 else tl.float32,
                num_warps=tile.num_warps,
                num_stages=tile.num_stages,
                maxnreg=blocks.registers(max(width, width_v), query.element_size()),
            )
    return out, lse


launch.register_fake(empty_results)
