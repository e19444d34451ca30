"""The last rung, sdpa: PyTorch's own attention under the course's names.

New here: nothing is computed by us. What PyTorch's function cannot be asked for directly
(a causal mask together with another one, the bottom-right corner, a window, ALiBi) is
written into one mask and handed over.

Left out: what it cannot do at all: the log-sum-exp, a softcap, a chosen dropout seed.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attncourse._convert import widened
from attncourse.call import Call


def attend(q: Tensor, k: Tensor, v: Tensor, call: Call) -> tuple[Tensor, None]:
    """Call `torch.nn.functional.scaled_dot_product_attention`.

    Parameters
    ----------
    q, k, v : Tensor, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Any floating-point type, any device; Hkv divides H.
    call : Call
        What else was asked for; dropout draws from torch's own generator.

    Returns
    -------
    out : Tensor, shape (..., H, L, Ev)
        0 in the rows that see no key.
    lse : None
        PyTorch does not tell it.

    Notes
    -----
    PyTorch refuses `attn_mask` together with `is_causal`; here they combine by AND. Its backward
    pass makes weights from one float32 lse a row. Where a float mask lifts a whole row far from 0
    (finfo.min, -1e9), the gradients are wrong; ``rung="auto"`` does not send such a call here.
    **Source:** the documentation of PyTorch's function.
    """
    if call.attn_mask is None and call.alibi_slopes is None and call.window_size is None:
        if not call.is_causal:
            return _hand_over(q, k, v, None, call), None
        if not call.shift:
            # No query sees the keys behind the last of them. (A traced call looks at no length.)
            if torch.compiler.is_compiling() or k.shape[-2] > q.shape[-2]:
                k, v = (x[..., : q.shape[-2], :] for x in (k, v))
            return _hand_over(q, k, v, None, call, is_causal=True), None

    k, v = call.cut(k, v)
    if call.alibi_slopes is None and (call.attn_mask is None or call.attn_mask.dtype == torch.bool):
        bias = call.seen(q)  # (..., L, S)
    else:  # a bias in half precision would be rounded, and may overflow to -inf
        q, k, v = widened(q, k, v)
        bias = call.finish(q.new_zeros(call.rows.stop, call.cols.stop))  # (..., L, S)
    out = _hand_over(q, k, v, bias, call)
    # PyTorch does not promise what a row without keys returns; its backends have differed.
    blind = call.blind(q)
    return (out if blind is None else out.masked_fill(blind, 0.0)), None


def _hand_over(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, call: Call, is_causal: bool = False
) -> Tensor:
    """Hand over, with an answer of our own where there is no key at all."""
    if k.shape[-2] == 0 or q.shape[-2] == 0:
        # Sums over nothing: 0, and zeros as gradients, whatever the inputs hold.
        nothing = q[..., :0].sum() + k[..., :0].sum() + v[..., :0].sum()
        return q.new_zeros(*q.shape[:-1], v.shape[-1]) + nothing
    if bias is not None and q.ndim > 2:
        bias = bias.expand(*q.shape[:-2], *bias.shape[-2:])
    # PyTorch's own default differs from ours in the last bit of a float64.
    scale = None if call.scale == q.shape[-1] ** -0.5 else call.scale
    return scaled_dot_product_attention(
        q, k, v, bias, call.dropout_p, is_causal, scale=scale, enable_gqa=call.enable_gqa
    )
