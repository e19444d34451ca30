"""Polynomial attention: a power of the scores instead of softmax.

New here: weights k·s^p, element by element. They may be negative, and a row does not sum to 1;
what is kept under control is the size of the whole matrix, by the coefficient k.

Left out: an approximation of softmax (none is meant), and the saving that a polynomial would
allow by expanding it: this builds the matrix of all pairs.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attncourse import _validate, masks
from attncourse.grouped import without_unseen

__all__ = ["attention", "weights"]


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    *,
    power: int = 3,
    coefficient: float | Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Add up the values with weights k·s^p, where s are the scaled scores.

    Parameters
    ----------
    query, key, value : Tensor, shapes (..., H, L, E), (..., H, S, E), (..., H, S, Ev)
        Any floating-point type, any device.
    attn_mask : Tensor or ndarray of bool, broadcastable to (..., H, L, S), optional
        True = attend. A number cannot hide a key here, so masks of numbers are refused.
    power : int, default 3
        p, at least 1, applied to each score by itself.
    coefficient : float or Tensor of one number, optional
        k, finite; a tensor may be learned. By default 1/sqrt(m) in a row that sees m keys, so
        1/sqrt(S) without a mask.
    is_causal : bool, default False
        Hide later keys; query 0 is pinned to key 0.
    scale : float, optional
        Multiplies the scores before the power; E ** -0.5 by default.

    Returns
    -------
    Tensor, shape (..., H, L, Ev)
        In the type of `query`; 0 in the rows that see no key.

    Notes
    -----
    2·L·S·(E + Ev) FLOPs, and L·S weights in memory. **Source:** Saratchandran et al. 2024
    (arXiv:2410.18613), a preprint, for k·x^p with k near 1/sqrt(S) and p = 1, 2, 3. Masks are
    ours: the default k counts the keys of each row, so that a causal output does not depend
    on how many tokens follow.
    """
    _check(query, key, value)
    how: dict[str, Any] = {"power": power, "coefficient": coefficient}
    rows = weights(query, key, attn_mask, is_causal=is_causal, scale=scale, **how)
    value = without_unseen(value.to(rows.dtype), _seen(rows, attn_mask, is_causal))
    return (rows @ value).to(query.dtype)


def weights(
    query: Tensor,
    key: Tensor,
    attn_mask: Any = None,
    *,
    power: int = 3,
    coefficient: float | Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Return the matrix that `attention` multiplies the values with.

    Parameters
    ----------
    query, key, attn_mask, power, coefficient, is_causal, scale
        As in `attention`.

    Returns
    -------
    Tensor, shape (..., H, L, S)
        float32 or wider, of any sign and any row sum; 0 where hidden.

    Raises
    ------
    ValueError, TypeError
        For a power below 1 or not whole, a coefficient that is not one finite number, a mask
        that is not boolean or does not fit, or shapes and types that do not fit each other.
    """
    _validate.options(is_causal=is_causal, scale=scale)
    _check(query, key, key)
    _check_power(power, coefficient)
    wide = torch.promote_types(query.dtype, torch.float32)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = scale * (query.to(wide) @ key.to(wide).mT)  # (..., L, S)
    seen = _seen(scores, attn_mask, is_causal)  # (..., L, S)
    if coefficient is None:
        count = seen.sum(-1, keepdim=True)  # (..., L, 1)
        scores = scores**power * count.clamp(min=1).to(wide).rsqrt()
    else:
        scores = coefficient * scores**power
    return scores.masked_fill(~seen, 0.0)


def _check(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Check that these are tensors, and fit each other."""
    if _validate.library_of(query, key, value) is not torch:
        raise TypeError("polynomial attention takes tensors, got arrays; use torch.from_numpy")
    _validate.shapes(query, key, value, False)
    _validate.dtypes(query, key, value)


def _check_power(power: int, coefficient: Any) -> None:
    """Check that p is whole, and that k is one finite number or not given."""
    if _validate.whole("power", power) < 1:
        raise ValueError(f"power must be at least 1, got {power}")
    if coefficient is None:
        return
    if isinstance(coefficient, bool) or not isinstance(coefficient, (Real, Tensor)):
        raise TypeError(f"coefficient must be a number, got {type(coefficient).__name__}")
    if isinstance(coefficient, Tensor):
        if coefficient.numel() != 1:
            shape = tuple(coefficient.shape)
            raise ValueError(f"coefficient must be one number, got a tensor of shape {shape}")
        coefficient = coefficient.item()
    if not math.isfinite(coefficient):
        raise ValueError(f"coefficient must be finite, got {coefficient}")


def _seen(scores: Tensor, attn_mask: Any, is_causal: bool) -> Tensor:
    """Combine the masks to a boolean one that broadcasts to the scores, True = attend."""
    seen = scores.new_ones(scores.shape[-2:], dtype=torch.bool)  # (L, S)
    if is_causal:
        seen = torch.from_numpy(masks.causal(*scores.shape[-2:])).to(scores.device)
    if attn_mask is not None:
        if not isinstance(attn_mask, (Tensor, np.ndarray)):
            raise TypeError(f"attn_mask must be a tensor or array, got {type(attn_mask).__name__}")
        mask = torch.as_tensor(attn_mask, device=scores.device)
        if mask.dtype != torch.bool:
            raise TypeError(f"attn_mask must be boolean, True = attend; got {mask.dtype}")
        _validate.mask(mask, tuple(scores.shape))
        seen = seen & mask
    return seen
