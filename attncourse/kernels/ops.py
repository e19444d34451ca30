"""The kernels as operators that torch knows: custom op, shapes, backward.

New here: `torch.compile` cannot look into a kernel launch, and autograd cannot
differentiate it. An operator tells the one which shapes come out, and the other which
operator is its backward. Second derivatives are left out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attncourse.kernels import launch, runtime
from attncourse.kernels.arguments import new_results, unflat

__all__ = ["attention_backward", "attention_forward"]


@torch.library.custom_op("attncourse::attention_forward", mutates_args=())
def attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    alibi_slopes: Tensor | None,
    scale: float,
    is_causal: bool,
    shift: int,
    window_size: int,
    softcap: float,
    dropout_p: float,
    dropout_seed: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute out, lse, row_max and row_sum; see `attncourse.kernels.launch.forward`."""
    runtime.check_device(query)
    options = (scale, is_causal, shift, window_size, softcap, dropout_p, dropout_seed)
    call = unflat(query, key, attn_mask, alibi_slopes, *options)
    return launch.forward(query, key, value, call)


@attention_forward.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return new_results(query, value, attn_mask)


@torch.library.custom_op("attncourse::attention_backward", mutates_args=())
def attention_backward(
    dout: Tensor,
    dlse: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    alibi_slopes: Tensor | None,
    out: Tensor,
    row_max: Tensor,
    row_sum: Tensor,
    want_scores: bool,
    scale: float,
    is_causal: bool,
    shift: int,
    window_size: int,
    softcap: float,
    dropout_p: float,
    dropout_seed: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute the gradients; see `attncourse.kernels.launch.backward`."""
    options = (scale, is_causal, shift, window_size, softcap, dropout_p, dropout_seed)
    call = unflat(query, key, attn_mask, alibi_slopes, *options)
    saved = (out, row_max, row_sum)
    return launch.backward((dout, dlse), query, key, value, call, saved, want_scores)


@attention_backward.register_fake
def _(
    dout: Tensor,
    dlse: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    alibi_slopes: Tensor | None,
    out: Tensor,
    row_max: Tensor,
    row_sum: Tensor,
    want_scores: bool,
    *_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dquery, dkey, dvalue = (query.new_empty(x.shape) for x in (query, key, value))
    scores = (*query.shape[:-1], key.shape[-2]) if want_scores else (0,)
    return dquery, dkey, dvalue, row_max.new_empty(scores)


def _save(ctx: Any, inputs: tuple, output: tuple) -> None:
    query, key, value, attn_mask, alibi_slopes, *ctx.options = inputs
    out, _, row_max, row_sum = output
    ctx.save_for_backward(query, key, value, attn_mask, alibi_slopes, out, row_max, row_sum)


def _differentiate(ctx: Any, dout: Tensor, dlse: Tensor, *_: Any) -> tuple:
    query, key, value, attn_mask, alibi_slopes, *saved = ctx.saved_tensors
    wants_mask, wants_slopes = ctx.needs_input_grad[3:5]
    dquery, dkey, dvalue, dscores = attention_backward(
        dout,
        dlse,
        query,
        key,
        value,
        attn_mask,
        alibi_slopes,
        *saved,
        wants_mask or wants_slopes,
        *ctx.options,
    )
    dmask = dslopes = None
    if wants_mask:
        dmask = dscores.sum_to_size(attn_mask.shape).to(attn_mask.dtype)
    if wants_slopes:
        _, _, shift, *_ = ctx.options
        queries = torch.arange(query.shape[2], device=query.device) + shift
        distance = abs(queries[:, None] - torch.arange(key.shape[2], device=query.device))
        dslopes = -(dscores * distance).sum((-2, -1)).to(alibi_slopes.dtype)
    return dquery, dkey, dvalue, dmask, dslopes, *[None] * len(ctx.options)


attention_forward.register_autograd(_differentiate, setup_context=_save)
