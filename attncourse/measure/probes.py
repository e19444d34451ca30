"""Measure what a result depends on, by asking torch's record of how it was computed.

The one idea: a claim about the shape of a computation (how deep, how far, how strongly) needs no
clock. The recorded operations tell the depth, and one gradient tells which inputs count.
"""

from __future__ import annotations

from collections.abc import Callable

import torch


def sequential_depth(result: torch.Tensor) -> int:
    """Count the operations on the longest chain that leads to a tensor.

    Parameters
    ----------
    result : Tensor
        Computed with gradients, so that torch has recorded how.

    Returns
    -------
    int
        Operations that must run one after the other, however many processors there are. One call
        of the library counts as one; inside it, a sum over n numbers is log2(n) steps deep.

    Raises
    ------
    ValueError
        If torch has recorded nothing.
    """
    if result.grad_fn is None:
        raise ValueError("result has no recorded history: compute it from a tensor with gradients")
    depth: dict[object, int] = {}
    stack = [result.grad_fn]
    while stack:
        node = stack[-1]
        parents = [parent for parent, _ in node.next_functions if parent is not None]
        waiting = [parent for parent in parents if parent not in depth]
        if waiting:
            stack += waiting
            continue
        own = 0 if type(node).__name__ == "AccumulateGrad" else 1
        depth[stack.pop()] = own + max((depth[parent] for parent in parents), default=0)
    return depth[result.grad_fn]


def gradient_by_distance(
    network: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, *, seed: int = 0
) -> torch.Tensor:
    """Measure how strongly the last output depends on the input at each distance before it.

    Parameters
    ----------
    network : callable
        Turns (B, T, E) into (B, T, Ev).
    x : Tensor of a floating dtype, shape (B, T, E)
        Inputs. Take float64: small norms are the point.
    seed : int, default 0
        The output is projected on one random direction of length 1, drawn with this seed.

    Returns
    -------
    Tensor, shape (T,)
        Entry d is the root mean square over the batch of ``|d out_T / d x_(T-d)|``: entry 0 belongs
        to the last token, entry T - 1 to the first.

    Raises
    ------
    ValueError
        If the network does not keep the first two axes of `x`.
    """
    x = x.detach().requires_grad_()
    out = network(x)
    if out.ndim != 3 or out.shape[:2] != x.shape[:2]:
        raise ValueError(
            f"network turned {tuple(x.shape)} into {tuple(out.shape)}; wanted (B, T, Ev)"
        )
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(out.shape[-1], generator=generator, dtype=torch.float64).to(out)
    last = out[:, -1] @ (direction / direction.norm())  # (B,)
    (gradient,) = torch.autograd.grad(last.sum(), x)  # (B, T, E)
    return gradient.square().sum(-1).mean(0).sqrt().flip(0)


def receptive_field(
    network: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, position: int
) -> torch.Tensor:
    """Tell which input positions can change one output position.

    Parameters
    ----------
    network : callable
        Turns (B, T, E) into (B, T, Ev).
    x : Tensor of a floating dtype, shape (B, T, E)
        Inputs in general position, such as random ones: a gradient that is zero by chance would
        be taken for no connection.
    position : int
        The output position asked about.

    Returns
    -------
    Tensor of bool, shape (T,)
        True where the gradient of the output with respect to that input is not zero.
    """
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(network(x)[:, position].sum(), x)
    return (gradient != 0).any(dim=-1).any(dim=0)


def influence(
    model: Callable[[torch.Tensor], torch.Tensor], tokens: torch.Tensor, num_symbols: int
) -> torch.Tensor:
    """Tell which outputs change when one token is replaced by another, in any bit.

    Parameters
    ----------
    model : callable
        Turns tokens (B, T) into (B, T, ...), the same every time: no dropout.
    tokens : Tensor of int64, shape (B, T)
        What to start from.
    num_symbols : int
        Each token is replaced by the next symbol, counted round this number; at least 2.

    Returns
    -------
    Tensor of bool, shape (T, T)
        Entry [i, j] is True if output i changed when token j did. A causal model has no True
        above the diagonal: that would be an output that knows its future.

    Raises
    ------
    ValueError
        If there is no other symbol, or the model answers the same tokens differently each time.

    Notes
    -----
    All runs have one shape, so a sum is added up in one order: a zero is exact, not rounded.
    """
    if num_symbols < 2:
        raise ValueError(f"num_symbols must be at least 2, got {num_symbols}")
    with torch.no_grad():
        before = model(tokens)
        if not torch.equal(before, model(tokens)):
            raise ValueError("the model answers the same tokens differently: call model.eval()")
        columns = []
        for place in range(tokens.shape[1]):
            changed = tokens.clone()
            changed[:, place] = (changed[:, place] + 1) % num_symbols
            moved = model(changed) != before  # (B, T, ...)
            columns.append(moved.transpose(0, 1).flatten(1).any(dim=1))  # (T,)
    return torch.stack(columns, dim=1)
