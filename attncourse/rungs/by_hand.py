"""Rung 3, by_hand: the backward pass, written out.

New here: the forward pass keeps what the way back needs, and `attention_backward` walks
its steps in reverse, one line a step. What one step passed on to several places comes back
as a sum: over the queries that read a key, and over the heads that share it.

Left out: autograd, which does this for us from rung `batched` on, and any thrift: the
(L, S) weights are kept from the forward pass to the backward pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attncourse import softmax
from attncourse.call import Call
from attncourse.grouped import product, summed_product


class Kept(NamedTuple):
    """What the forward pass leaves for the backward pass."""

    q: np.ndarray  # (..., H, L, E)
    k: np.ndarray  # (..., Hkv, S, E)
    v: np.ndarray  # (..., Hkv, S, Ev)
    scores: np.ndarray  # (..., H, L, S), after masks and softcap
    weights: np.ndarray  # (..., H, L, S), before dropout
    survived: np.ndarray | float  # (..., H, L, S): 0 where dropped, else 1 / (1 - dropout_p)
    call: Call


class Gradients(NamedTuple):
    """What `attention_backward` returns: one gradient for each thing that went in."""

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    scores: np.ndarray


def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, call: Call
) -> tuple[np.ndarray, np.ndarray]:
    """Attend, and forget what the backward pass would need.

    Parameters
    ----------
    q, k, v : ndarray, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Float32 or wider.
    call : Call
        What else was asked for.

    Returns
    -------
    out : ndarray, shape (..., H, L, Ev)
        0 in the rows that see no key.
    lse : ndarray, shape (..., H, L)
        In nats; -inf in the rows that see no key.
    """
    out, lse, _ = _forward(q, k, v, call)
    return out, lse


def attention_forward(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, *args: Any, **options: Any
) -> tuple[np.ndarray, np.ndarray, Kept]:
    """Compute attention, and keep what the backward pass needs.

    Parameters
    ----------
    query, key, value : ndarray
        As in `attncourse.attention`, float32 or wider.
    *args, **options
        The other arguments of `attncourse.attention`, but for `rung`.

    Returns
    -------
    out : ndarray, shape (..., H, L, Ev)
        0 in the rows that see no key.
    lse : ndarray, shape (..., H, L)
        In nats; -inf in the rows that see no key.
    kept : Kept
        For `attention_backward`.
    """
    return _forward(query, key, value, Call.of(query, key, value, *args, **options))


def _forward(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, call: Call
) -> tuple[np.ndarray, np.ndarray, Kept]:
    k, v = call.cut(k, v)
    scores = call.scale * product(q, k.swapaxes(-1, -2))  # (..., H, L, S)
    scores = call.finish(scores)
    weights = softmax.stable(scores)  # (..., H, L, S)
    survived = call.survived(weights) if call.dropout_p else 1.0  # (..., H, L, S)
    out = product(weights * survived, v)  # (..., H, L, Ev)
    return out, softmax.logsumexp(scores), Kept(q, k, v, scores, weights, survived, call)


def attention_backward(
    grad_out: np.ndarray, kept: Kept, grad_lse: np.ndarray | None = None
) -> Gradients:
    """Turn the gradient of the output into the gradients of the inputs.

    Parameters
    ----------
    grad_out : ndarray, shape (..., H, L, Ev)
        Gradient of a loss with respect to `out`.
    kept : Kept
        From `attention_forward`.
    grad_lse : ndarray, shape (..., H, L), optional
        Gradient of that loss with respect to `lse`.

    Returns
    -------
    Gradients
        `query`, `key` and `value` in the shapes of the inputs, summed over the heads of a
        group; `scores`, shape (..., H, L, S), belongs to whatever was added to the scaled
        scores: summed over the axes a float mask was broadcast along, it is the mask's.
        Rows that see no key have gradients 0.

    Notes
    -----
    Four matrix products where the forward pass has two: twice the FLOPs. In the softmax
    each weight pushes all others of its row down, which subtracts one number from a row.
    **Source:** Dao et al. 2022, appendix B.2 (arXiv:2205.14135).
    """
    q, k, v, scores, weights, survived, call = kept
    num_kv_heads = k.shape[-3] if k.ndim > 2 else 1
    # out = (weights * survived) @ v
    grad_value = summed_product(weights * survived, grad_out, num_kv_heads)
    value = v.swapaxes(-1, -2)  # (..., Hkv, Ev, S)
    grad_weights = product(grad_out, value) * survived  # (..., H, L, S)
    # weights = softmax(scores)
    average = (weights * grad_weights).sum(-1, keepdims=True)  # (..., H, L, 1)
    grad_scores = weights * (grad_weights - average)  # (..., H, L, S)
    # lse = logsumexp(scores), whose gradient is the weights
    if grad_lse is not None:
        grad_scores = grad_scores + weights * grad_lse[..., None]
    # scores = softcap * tanh(scaled / softcap)
    if call.softcap is not None:
        grad_scores = grad_scores * call.softcap_slope(scores)
    # scaled = scale * q @ k.T
    grad_query = call.scale * product(grad_scores, k)  # (..., H, L, E)
    grad_key = call.scale * summed_product(grad_scores, q, num_kv_heads)
    return Gradients(grad_query, grad_key, grad_value, grad_scores)
