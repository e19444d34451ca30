"""The ladder: one `attention()`, many ways to compute it, each one idea more than the last.

`LADDER` lists the rungs in teaching order. `attention` checks its arguments, picks the
rung, and never swaps a rung that was asked for by name. Rungs do not import each other.
"""

from __future__ import annotations

from typing import Any

from attncourse.call import Call
from attncourse.features import FEATURES
from attncourse.rungs._dispatch import import_ahead, is_transformed, pick, run
from attncourse.rungs._ladder import LADDER, Limits, Rung, by_name

__all__ = ["FEATURES", "LADDER", "Limits", "Rung", "attention", "by_name"]

import_ahead()


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    causal_align: str = "top_left",
    window_size: int | None = None,
    softcap: float | None = None,
    alibi_slopes: Any = None,
    dropout_seed: int | None = None,
    return_lse: bool = False,
    rung: str = "auto",
) -> Any:
    """Compute scaled dot-product attention on a chosen rung of the ladder.

    The positional arguments are those of
    `torch.nn.functional.scaled_dot_product_attention`, with the same meaning.

    Parameters
    ----------
    query : ndarray or Tensor, shape (..., H, L, E) or (L, E)
        What each position asks for.
    key : ndarray or Tensor, shape (..., Hkv, S, E) or (S, E)
        What each position can be found by.
    value : ndarray or Tensor, shape (..., Hkv, S, Ev) or (S, Ev)
        What each position hands over.
    attn_mask : ndarray or Tensor, broadcastable to (..., H, L, S), optional
        Boolean, True = attend; or floating point, added to the scaled scores, where only
        -inf hides. Combines with `is_causal` and `window_size` by AND.
    dropout_p : float, default 0.0
        Probability with which a weight is dropped; the rest is divided by 1 - `dropout_p`.
    is_causal : bool, default False
        Hide the keys after each query.
    scale : float, optional
        Multiplies the dot products; ``E ** -0.5`` by default.
    enable_gqa : bool, default False
        Let key/value head j serve the query heads j·g … j·g + g - 1, g = H / Hkv.
    causal_align : {"top_left", "bottom_right"}
        Which corner the causal triangle, and ALiBi's distance 0, is pinned to when L != S.
        Decoding with a cache needs "bottom_right".
    window_size : int, optional
        W: a query sees its own key and the W - 1 before it. Needs `is_causal`.
    softcap : float, optional
        c: scores become c · tanh(score / c), before boolean masks.
    alibi_slopes : ndarray or Tensor, shape (H,) or (..., H), optional
        Subtract slope · distance from the scores of each head.
    dropout_seed : int, optional
        Names the dropout mask: the same one on every rung. Drawn afresh by default.
    return_lse : bool, default False
        Also return the log-sum-exp of the scores.
    rung : str, default "auto"
        A name from `LADDER`; "auto" takes the fastest that has the features asked for.

    Returns
    -------
    out : ndarray or Tensor, shape (..., H, L, Ev)
        Same library, type and device as `query`; 0 in rows that see no key.
    lse : ndarray or Tensor, shape (..., H, L)
        Only with `return_lse`: natural log of the softmax's denominator, after masks and
        softcap, float32 or wider; -inf in rows that see no key.

    Raises
    ------
    ValueError
        When shapes disagree (both are named), or an option lies out of range.
    TypeError
        For integer or mixed types, integer masks, arrays mixed with tensors, and for a NumPy
        rung that is given tensors which need gradients.
    NotImplementedError
        When the rung asked for lacks a feature asked for; both are named.

    Notes
    -----
    What no query may see never reaches a result, NaN and inf included. Where some queries see a
    key and others do not, its value must be finite: a weight of 0 times NaN is NaN, and most
    rungs multiply. Under that condition ``out[:i]`` keeps its bits when keys and values from i
    on change, with `is_causal`.

    PyTorch's function broadcasts batch axes, takes ``dropout_p=1`` and refuses `attn_mask`
    together with `is_causal`; this one refuses the first two and combines the masks.

    Order: scale, then ALiBi and float mask, softcap, boolean masks, softmax, dropout.
    **Source:** Vaswani et al. 2017, section 3.2.1 (arXiv:1706.03762).

    Examples
    --------
    >>> import numpy as np
    >>> one_key = attention(np.ones((1, 2)), np.ones((1, 2)), np.array([[3.0, 4.0]]))
    >>> one_key
    array([[3., 4.]])
    """
    call = Call.of(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        scale,
        enable_gqa,
        causal_align=causal_align,
        window_size=window_size,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        dropout_seed=dropout_seed,
        return_lse=return_lse,
    )
    needs = call.needs
    chosen = pick(query, value, needs) if rung == "auto" else by_name(rung)
    if rung == "auto" and not chosen.transforms and is_transformed(query, key, value, call):
        chosen = pick(query, value, needs, transforms=True)
    return run(chosen, needs, query, key, value, call)
