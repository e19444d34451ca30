"""Rung 3, by_hand: the backward pass, written out.

New here: `attention_forward` keeps what the way back needs, and `attention_backward` walks
its steps in reverse, one line a step. What one step passed on to several places comes back
as a sum: over the queries that read a key, and over the heads that share it.

Left out: autograd, which does this for us from rung `batched` on, and any thrift: the
(L, S) weights are kept from the forward pass to the backward pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attncourse import dropout, masks, softmax, tiles
from attncourse import scores as order


class Kept(NamedTuple):
    """What the forward pass leaves for the backward pass."""

    q: np.ndarray  # (..., H, L, E)
    k: np.ndarray  # (..., Hkv, S, E)
    v: np.ndarray  # (..., Hkv, S, Ev)
    scores: np.ndarray  # (..., H, L, S), after masks and softcap
    weights: np.ndarray  # (..., H, L, S), before dropout
    survived: np.ndarray | float  # (..., H, L, S): 0 where dropped, else 1 / (1 - dropout_p)
    scale: float
    softcap: float | None


class Gradients(NamedTuple):
    """What `attention_backward` returns: one gradient for each thing that went in."""

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    scores: np.ndarray


def attention(query: np.ndarray, key: np.ndarray, value: np.ndarray, **options: Any) -> Any:
    """Attend, and forget what the backward pass would need.

    Parameters
    ----------
    query, key, value : ndarray, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Float32 or wider.
    **options
        Those of `attention_forward`, and `return_lse`.

    Returns
    -------
    out : ndarray, shape (..., H, L, Ev)
        0 in the rows that see no key.
    lse : ndarray, shape (..., H, L)
        Only with `return_lse`, in nats; -inf in the rows that see no key.
    """
    return_lse = options.pop("return_lse", False)
    out, lse, _ = attention_forward(query, key, value, **options)
    return (out, lse) if return_lse else out


def attention_forward(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    attn_mask: np.ndarray | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    causal_align: str = "top_left",
    window_size: int | None = None,
    softcap: float | None = None,
    alibi_slopes: np.ndarray | None = None,
    dropout_seed: int = 0,
) -> tuple[np.ndarray, np.ndarray, Kept]:
    """Compute attention, and keep what the backward pass needs.

    Parameters
    ----------
    query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
        As in `attncourse.attention`.
    causal_align, window_size, softcap, alibi_slopes, dropout_seed
        As in `attncourse.attention`.

    Returns
    -------
    out : ndarray, shape (..., H, L, Ev)
        0 in the rows that see no key.
    lse : ndarray, shape (..., H, L)
        In nats; -inf in the rows that see no key.
    kept : Kept
        For `attention_backward`.
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    rows, cols = slice(0, query.shape[-2]), slice(0, key.shape[-2])
    shift = masks.offset(rows.stop, cols.stop, causal_align)
    seen = order.allowed(query, rows, cols, attn_mask, is_causal, shift, window_size)
    k, v = order.drop_unseen(key, seen), order.drop_unseen(value, seen)
    limits: dict[str, Any] = {"is_causal": is_causal, "shift": shift, "window_size": window_size}

    scores = scale * tiles.by_group(query, k.swapaxes(-1, -2))  # (..., H, L, S)
    scores, _ = order.finish(
        scores,
        rows,
        cols,
        attn_mask=attn_mask,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        **limits,
    )
    weights = softmax.stable(scores)  # (..., H, L, S)
    survived: np.ndarray | float = 1.0
    if dropout_p:
        survived = dropout.keep(weights, dropout_p, dropout_seed).astype(weights.dtype)
        survived = survived / (1 - dropout_p)  # (..., H, L, S)
    out = tiles.by_group(weights * survived, v)  # (..., H, L, Ev)
    kept = Kept(query, k, v, scores, weights, survived, scale, softcap)
    return out, softmax.logsumexp(scores), kept


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
    q, k, v, scores, weights, survived, scale, softcap = kept

    num_kv_heads = k.shape[-3] if k.ndim > 2 else 1
    # out = (weights * survived) @ v
    grad_value = tiles.sum_by_group(weights * survived, grad_out, num_kv_heads)
    value = v.swapaxes(-1, -2)  # (..., Hkv, Ev, S)
    grad_weights = tiles.by_group(grad_out, value) * survived  # (..., H, L, S)
    # weights = softmax(scores)
    average = (weights * grad_weights).sum(-1, keepdims=True)  # (..., H, L, 1)
    grad_scores = weights * (grad_weights - average)  # (..., H, L, S)
    # lse = logsumexp(scores), whose gradient is the weights
    if grad_lse is not None:
        grad_scores = grad_scores + weights * grad_lse[..., None]
    # scores = softcap * tanh(scaled / softcap)
    if softcap is not None:
        grad_scores = grad_scores * order.softcap_slope(scores, softcap)
    # scaled = scale * q @ k.T
    grad_query = scale * tiles.by_group(grad_scores, k)  # (..., H, L, E)
    grad_key = scale * tiles.sum_by_group(grad_scores, q, num_kv_heads)
    return Gradients(grad_query, grad_key, grad_value, grad_scores)
