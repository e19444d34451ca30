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

from attncourse import masks
from attncourse.kernels.ops import attention_forward


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    causal_align: str = "top_left",
    window_size: int | None = None,
    softcap: float | None = None,
    alibi_slopes: Tensor | None = None,
    dropout_seed: int = 0,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attend with Triton kernels, natively on a GPU or interpreted on a CPU.

    Parameters
    ----------
    query, key, value : Tensor, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Any floating-point type and strides; under autocast, float32 gives way to its type.
    attn_mask, dropout_p, is_causal, scale, enable_gqa, causal_align, window_size, softcap
        As in `attncourse.attention`.
    alibi_slopes, dropout_seed, return_lse
        As in `attncourse.attention`.

    Returns
    -------
    out : Tensor, shape (..., H, L, Ev)
        0 in rows that see no key.
    lse : Tensor, shape (..., H, L)
        Only with `return_lse`, in nats, float32 or wider; -inf in rows that see no key.

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
    Memory: three numbers a query beside the output.
    **Source:** Dao 2023, sections 3.1 and 3.2 (arXiv:2307.08691).
    """
    query, key, value = (_autocast(array) for array in (query, key, value))
    batch_axes = query.shape[:-3]
    q, k, v = (_four_axes(array) for array in (query, key, value))
    shift = masks.offset(q.shape[2], k.shape[2], causal_align)
    if attn_mask is not None:
        attn_mask = _mask_four_axes(attn_mask, batch_axes)
    if alibi_slopes is not None:
        alibi_slopes = alibi_slopes.expand(*batch_axes, q.shape[1]).reshape(q.shape[:2])
    out, lse, _, _ = attention_forward(
        q,
        k,
        v,
        attn_mask,
        alibi_slopes,
        q.shape[3] ** -0.5 if scale is None else scale,
        is_causal,
        shift,
        window_size or 0,
        softcap or 0.0,
        dropout_p,
        dropout_seed - 2**64 if dropout_seed >= 2**63 else dropout_seed,
    )
    out = out.reshape(*query.shape[:-1], value.shape[-1])
    return (out, lse.reshape(query.shape[:-1])) if return_lse else out


def _autocast(array: Tensor) -> Tensor:
    """Give float32 the type that autocast asks for, as PyTorch's attention does."""
    device = array.device.type
    if array.dtype == torch.float32 and torch.is_autocast_enabled(device):
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
