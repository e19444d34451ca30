"""The last rung, sdpa: PyTorch's own attention under the course's names.

New here: nothing is computed by us. What PyTorch's function cannot be asked for directly
(a causal mask together with another one, the bottom-right corner, a window, ALiBi) is
written into one mask and handed over.

Left out: what it cannot do at all: the log-sum-exp, a softcap, a chosen dropout seed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attncourse import masks
from attncourse import scores as order


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
    **hiding: Any,
) -> Tensor:
    """Call `torch.nn.functional.scaled_dot_product_attention`.

    Parameters
    ----------
    query, key, value : Tensor, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Any floating-point type, any device; with `enable_gqa`, Hkv divides H.
    attn_mask, dropout_p, is_causal, scale, enable_gqa, causal_align
        As in `attncourse.attention`; dropout draws from torch's own generator.
    **hiding
        `window_size` and `alibi_slopes`.

    Returns
    -------
    Tensor, shape (..., H, L, Ev)
        0 in the rows that see no key.

    Notes
    -----
    PyTorch refuses `attn_mask` together with `is_causal`; here they combine by AND.
    **Source:** the documentation of PyTorch's function.
    """
    rows, cols = slice(0, query.shape[-2]), slice(0, key.shape[-2])
    shift = masks.offset(rows.stop, cols.stop, causal_align)
    if is_causal and attn_mask is None and not shift and not hiding:
        key, value = key[..., : rows.stop, :], value[..., : rows.stop, :]  # no query sees the rest
        return _call(query, key, value, None, dropout_p, True, scale, enable_gqa)
    if attn_mask is None and not is_causal and not hiding:
        return _call(query, key, value, None, dropout_p, False, scale, enable_gqa)

    zeros = query.new_zeros(rows.stop, cols.stop, dtype=_wide(query))  # (L, S)
    bias, seen = order.finish(
        zeros, rows, cols, attn_mask=attn_mask, is_causal=is_causal, shift=shift, **hiding
    )
    if seen is not None:
        key, value = order.drop_unseen(key, seen), order.drop_unseen(value, seen)
    if hiding.get("alibi_slopes") is None and (attn_mask is None or attn_mask.dtype == torch.bool):
        bias = seen
    else:  # a bias in half precision would be rounded, and may overflow to -inf
        query, key, value = (array.to(bias.dtype) for array in (query, key, value))
    out = _call(query, key, value, bias, dropout_p, False, scale, enable_gqa)
    if seen is None:
        return out
    # PyTorch does not promise what a row without keys returns; its backends have differed.
    return out.masked_fill(~seen.any(-1, keepdim=True), 0.0)


def _wide(query: Tensor) -> torch.dtype:
    return torch.promote_types(query.dtype, torch.float32)


def _call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    """Hand over, with an answer of our own where there is no key at all."""
    if key.shape[-2] == 0 or query.shape[-2] == 0:
        # Sums over nothing: 0, and zeros as gradients, whatever the inputs hold.
        nothing = query[..., :0].sum() + key[..., :0].sum() + value[..., :0].sum()
        return query.new_zeros(*query.shape[:-1], value.shape[-1]) + nothing
    if attn_mask is not None and query.ndim > 2:
        attn_mask = attn_mask.expand(*query.shape[:-2], *attn_mask.shape[-2:])
    return scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )
