"""Rung 4, batched: whole batches of heads in torch, and autograd does the backward.

New here: groups of query heads share one key/value head without copying it (their rows
are stacked under each other, so one product serves the group), any floating-point type
is accumulated in float32 at least, and gradients flow, also through a row that sees
nothing, where they are 0.

Left out: thrift. The whole (L, S) matrix of scores is stored, and kept for the backward.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attncourse._convert import widened
from attncourse.call import Call
from attncourse.grouped import product


def attend(q: Tensor, k: Tensor, v: Tensor, call: Call) -> tuple[Tensor, Tensor]:
    """Attend with torch, for any number of batch axes and for grouped heads.

    Parameters
    ----------
    q, k, v : Tensor, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Any floating-point type, any device; Hkv divides H.
    call : Call
        What else was asked for.

    Returns
    -------
    out : Tensor, shape (..., H, L, Ev)
        0 in the rows that see no key.
    lse : Tensor, shape (..., H, L)
        In nats, float32 or wider; -inf in the rows that see no key.

    Notes
    -----
    Key/value head j serves the query heads j·g … j·g + g - 1, and its gradient is the sum over
    them. **Source:** Ainslie et al. 2023, section 2.2 (arXiv:2305.13245).
    """
    q, k, v = widened(q, k, v)
    k, v = call.cut(k, v)
    scores = call.scale * product(q, k.mT)  # (..., H, L, S)
    scores = call.finish(scores)
    weights, lse = _softmax(scores)  # (..., H, L, S), (..., H, L)
    out = product(call.drop(weights), v)  # (..., H, L, Ev)
    return out, lse


def _softmax(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights and log-sum-exp, with zeros and -inf for rows that see nothing."""
    if scores.shape[-1] == 0:
        return scores, scores.new_full(scores.shape[:-1], -torch.inf)
    row_max = scores.detach().amax(-1, keepdim=True)  # (..., L, 1)
    row_max = row_max.masked_fill(row_max == -torch.inf, 0.0)
    exponentials = (scores - row_max).exp()
    row_sum = exponentials.sum(-1, keepdim=True)  # (..., L, 1)
    empty = row_sum == 0
    row_sum = row_sum.masked_fill(empty, 1.0)
    lse = (row_sum.log() + row_max).masked_fill(empty, -torch.inf)
    return exponentials / row_sum, lse.squeeze(-1)
