"""Follow attention through all layers, down to the inputs an output could have read from.

The one idea: a layer mixes tokens by its weights and adds what was there before, so layers multiply
like matrices. Left out: values, feed-forward layers and everything else that decides whether what
could be read is used. A picture made this way is a question, not an explanation.

**Source:** Abnar and Zuidema 2020 (arXiv:2005.00928).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["rollout"]


def rollout(weights: Sequence[Tensor], *, kept: float = 0.5) -> Tensor:
    """Multiply the weights of all layers, each averaged with the identity.

    Parameters
    ----------
    weights : sequence of Tensor, shapes (B, H, n, n)
        One for each layer, first layer first; rows sum to 1.
    kept : float, default 0.5
        Share of the residual connection, 0 to 1.

    Returns
    -------
    Tensor, shape (B, n, n)
        Row i: how the last layer's token i is spread over the inputs. Rows sum to 1.

    Raises
    ------
    ValueError
        If there is no layer, its weights are not square, the layers differ in size, or `kept` lies
        outside 0 to 1.
    """
    if not 0.0 <= kept <= 1.0:
        raise ValueError(f"kept must lie in 0 to 1, got {kept}")
    if len(weights) == 0:
        raise ValueError("rollout needs the weights of at least one layer, got none")
    flow: Tensor = torch.tensor(1.0)
    for number, layer in enumerate(weights):
        if layer.ndim != 4 or layer.shape[2] != layer.shape[3]:
            raise ValueError(f"weights must have shape (B, H, n, n), got {tuple(layer.shape)}")
        if layer.shape[2] != weights[0].shape[2]:
            sizes = weights[0].shape[2], layer.shape[2]
            raise ValueError("layers must have the same n, got {} and {}".format(*sizes))
        identity = torch.eye(layer.shape[2]).to(layer)
        mixed = kept * identity + (1 - kept) * layer.mean(dim=1)  # (B, n, n)
        flow = mixed @ flow if number else mixed
    return flow
