"""Rung 9, triton: forward and backward as GPU kernels, with everything the ladder has.

New here: the backward. Its kernels recompute each tile of weights, as rung `recompute`
does: one walks the keys for dq, one walks the queries for dk and dv, and since each owns
what it writes there are no atomics and the result never depends on timing. Masks, window,
softcap, ALiBi and dropout are worked out inside the tile; nothing of size (L, S) is stored,
except for the gradient of a float mask or of slopes, where it is wanted.

The kernels stand in `attncourse.kernels`: `forward`, `delta`, `dkdv`, `dq`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attncourse.call import Call
from attncourse.kernels.arguments import flat
from attncourse.kernels.ops import attention_forward


def attend(q: Tensor, k: Tensor, v: Tensor, call: Call) -> tuple[Tensor, Tensor]:
    """Attend with Triton kernels, natively on a GPU or interpreted on a CPU.

    Parameters
    ----------
    q, k, v : Tensor, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Any floating-point type and strides; under autocast, float32 gives way to its type.
    call : Call
        What else was asked for.

    Returns
    -------
    out : Tensor, shape (..., H, L, Ev)
        0 in rows that see no key.
    lse : Tensor, shape (..., H, L)
        In nats, float32 or wider; -inf in rows that see no key.

    Raises
    ------
    ImportError
        When Triton is not installed; the message says how to get it.
    RuntimeError
        When Triton was imported before, in the mode that does not fit this machine.
    ValueError
        For a CPU tensor where kernels run natively.

    Notes
    -----
    Memory: three numbers a query beside the output. Without a float mask the backward pass makes
    weights from one log-sum-exp a row: beside scores of ±1e6 and more float32 leaves it too few
    digits, and gradients are off (rung `recompute` keeps two numbers a row, and is right there).
    **Source:** Dao 2023, sections 3.1 and 3.2 (arXiv:2307.08691).
    """
    q, k, v = (_autocast(array) for array in (q, k, v))
    shape, batch_axes = q.shape[:-1], q.shape[:-3]
    q, k, v = (_four_axes(array) for array in (q, k, v))
    mask, slopes = call.attn_mask, call.alibi_slopes
    if mask is not None:
        mask = _mask_four_axes(mask, batch_axes)
    if slopes is not None:
        slopes = slopes.expand(*batch_axes, q.shape[1]).reshape(q.shape[:2])
    out, lse, _, _ = attention_forward(q, k, v, mask, slopes, *flat(call))
    return out.reshape(*shape, v.shape[-1]), lse.reshape(shape)


def _autocast(array: Tensor) -> Tensor:
    """Give float32 the type that autocast asks for, as PyTorch's attention does."""
    device = array.device.type
    known = torch.amp.is_autocast_available(device)
    if known and array.dtype == torch.float32 and torch.is_autocast_enabled(device):
        return array.to(torch.get_autocast_dtype(device))
    return array


def _four_axes(array: Tensor) -> Tensor:
    """View (..., H, L, E) as (B, H, L, E), with B = H = 1 where there is no such axis."""
    heads = array.shape[-3] if array.ndim > 2 else 1
    return array.reshape(math.prod(array.shape[:-3]), heads, *array.shape[-2:])


def _mask_four_axes(attn_mask: Tensor, batch_axes: tuple[int, ...]) -> Tensor:
    """View a mask as (B, H, L, S), where every axis may stay 1."""
    attn_mask = attn_mask[(None,) * max(0, 2 - attn_mask.ndim)]
    if math.prod(attn_mask.shape[:-3]) != 1:
        attn_mask = attn_mask.expand(*batch_axes, *attn_mask.shape[-3:])
    return _four_axes(attn_mask)
