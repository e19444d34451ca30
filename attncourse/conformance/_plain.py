"""Attention as plain PyTorch writes it, in the type it is given.

Two things are measured against it: gradients, with float64 and autograd, and low
precision, where its own error in the same type sets how large another's may be.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from attncourse import dropout, reference


def visible(shape: tuple[int, ...], options: dict[str, Any]) -> np.ndarray:
    """Return what may be seen, (..., L, S), from the oracle's list of keys."""
    names = ("is_causal", "causal_align", "window_size")
    rule = {name: options[name] for name in names if name in options}
    seen = np.zeros(shape, bool)
    for i in range(shape[-2]):
        keys = reference.allowed_keys(i, shape[-2], shape[-1], **rule)
        seen[..., i, keys.start : keys.stop] = True
    mask = options.get("attn_mask")
    if mask is not None:
        seen &= mask if mask.dtype == bool else ~np.isneginf(mask)
    return seen


def _distance(num_queries: int, num_keys: int, options: dict[str, Any]) -> np.ndarray:
    bottom_right = options.get("causal_align") == "bottom_right"
    shift = num_keys - num_queries if bottom_right else 0
    return np.abs(np.arange(num_queries)[:, None] + shift - np.arange(num_keys))


def plain(inputs: Iterable[Any], options: dict[str, Any]) -> tuple[Any, Any]:
    """Compute attention from tensors, step by step, in their own type.

    Parameters
    ----------
    inputs : three tensors, shapes (..., H, L, E), (..., Hkv, S, E), (..., Hkv, S, Ev)
        Query, key and value, of any floating-point type.
    options : dict
        Arguments of `attncourse.attention`; masks and slopes as NumPy arrays, or a float
        mask as a tensor under "added".

    Returns
    -------
    out, lse : Tensor
        Output and log-sum-exp; 0 and -inf in rows that see no key.
    """
    import torch

    query, key, value = inputs
    if query.ndim > 2 and key.shape[-3] != query.shape[-3]:
        groups = query.shape[-3] // key.shape[-3]
        key, value = (array.repeat_interleave(groups, -3) for array in (key, value))
    shape = (*query.shape[:-1], key.shape[-2])
    scores = query @ key.transpose(-1, -2) * options.get("scale", query.shape[-1] ** -0.5)
    scores = scores + _added(scores, options)
    if "softcap" in options:
        scores = options["softcap"] * torch.tanh(scores / options["softcap"])
    seen = torch.from_numpy(visible(shape, options)).to(query.device)
    some = seen.any(-1, keepdim=True)  # (..., L, 1)
    hidden = scores.masked_fill(~seen & some, -torch.inf)
    lse = hidden.logsumexp(-1).masked_fill(~some[..., 0], -torch.inf)
    weights = hidden.softmax(-1) * some
    if "dropout_p" in options:
        drawn = np.empty(shape, bool)
        kept = dropout.keep(drawn, options["dropout_p"], options["dropout_seed"])
        weights = weights * torch.from_numpy(kept).to(query.device) / (1 - options["dropout_p"])
    return weights @ value, lse


def _added(scores: Any, options: dict[str, Any]) -> Any:
    """Return what is added to the scaled scores: float mask and ALiBi."""
    import torch

    total = torch.zeros((), dtype=scores.dtype, device=scores.device)
    mask = options.get("attn_mask")
    if "added" in options:
        total = total + options["added"]
    elif mask is not None and mask.dtype != bool:
        total = total + torch.from_numpy(np.where(np.isneginf(mask), 0.0, mask)).to(scores)
    if "alibi_slopes" in options:
        slopes = torch.from_numpy(options["alibi_slopes"]).to(scores)[..., None, None]
        distance = torch.from_numpy(_distance(scores.shape[-2], scores.shape[-1], options)).to(
            scores
        )
        total = total - slopes * distance
    return total
