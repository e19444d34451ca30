"""Reach into every attention of a model: choose the rung, and look at the weights.

The one idea: a model's attentions are modules like any other, so they can all be found, told which
rung to use, and watched while the model runs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attncourse.layers.heads import MultiHeadAttention
from attncourse.rungs import by_name


def set_rung(model: nn.Module, name: str) -> nn.Module:
    """Let every attention of a model be computed on one rung of the ladder.

    Parameters
    ----------
    model : torch.nn.Module
        Holds at least one `MultiHeadAttention`.
    name : str
        A name from `attncourse.LADDER`, or "auto".

    Returns
    -------
    torch.nn.Module
        The same model.

    Raises
    ------
    ValueError
        For a name that is no rung, or a model without attention.
    """
    if name != "auto":
        by_name(name)
    found = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    if not found:
        raise ValueError(f"{type(model).__name__} holds no MultiHeadAttention")
    for module in found:
        module.rung = name
    return model


def attention_weights(model: nn.Module, *inputs: Any, **options: Any) -> tuple[Tensor, ...]:
    """Run a model and return the weights of each of its attentions, in the order they ran.

    Parameters
    ----------
    model : torch.nn.Module
        Any model made of these layers.
    *inputs, **options
        What the model is called with; no cache.

    Returns
    -------
    tuple of Tensor, shapes (B, H, L, S)
        One for each call of a `MultiHeadAttention`: one a layer in GPT and BERT; in a decoder with
        cross-attention, two a layer.
    """
    seen: list[Tensor] = []

    def look(module: nn.Module, args: tuple, kwargs: dict, _: Any) -> None:
        kwargs = {name: given for name, given in kwargs.items() if name != "cache"}
        seen.append(module.weights(*args, **kwargs))  # type: ignore[operator]

    hooks = [
        module.register_forward_hook(look, with_kwargs=True)
        for module in model.modules()
        if isinstance(module, MultiHeadAttention)
    ]
    try:
        with torch.no_grad():
            model(*inputs, **options)
    finally:
        for hook in hooks:
            hook.remove()
    return tuple(seen)
