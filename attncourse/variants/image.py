"""Self-attention on a picture's pixels, where each pixel looks at a small window around it.

The one idea: a convolution multiplies a window by fixed numbers; here the numbers are computed from
what the window shows, one vector of weights for each neighbour instead of one scalar. `pairwise`
computes a neighbour's weights from the pixel and that neighbour; `patchwise` computes all of them
from the whole window at once.

Left out: strides and dilation. Outside the picture every map is 0, as for a padded convolution.

**Source:** Zhao, Jia and Koltun 2020, equations 2 to 4 (arXiv:2004.13621).
"""

from __future__ import annotations

from itertools import product

import torch
from torch import nn

from attncourse._validate import whole

__all__ = [
    "PAIRWISE",
    "PATCHWISE",
    "PairwiseAttention",
    "PatchwiseAttention",
    "depthwise",
    "footprint",
    "inside",
    "steps",
]

PAIRWISE = ("subtraction", "summation", "concatenation", "hadamard", "dot")
PATCHWISE = ("concatenation", "star", "clique")


def footprint(x: torch.Tensor, size: int) -> torch.Tensor:
    """Collect the window around every pixel, row by row, zeros outside the picture.

    Parameters
    ----------
    x : Tensor, shape (B, C, height, width)
        A picture of C channels.
    size : int
        Pixels along one side of the window, odd.

    Returns
    -------
    Tensor, shape (B, height * width, size * size, C)
        Neighbour ``size * size // 2`` is the pixel itself.
    """
    _check_size(size)
    if x.ndim != 4:
        raise ValueError(f"a picture has shape (B, C, height, width), got {tuple(x.shape)}")
    height, width, half = *x.shape[2:], size // 2
    padded = nn.functional.pad(x.movedim(1, -1), (0, 0, half, half, half, half))
    shifts = product(range(size), repeat=2)
    moved = [padded[:, i : i + height, j : j + width] for i, j in shifts]
    return torch.stack(moved, dim=3).flatten(1, 2)


def inside(height: int, width: int, size: int) -> torch.Tensor:
    """Tell which neighbours lie inside the picture, shape (height * width, size * size)."""
    return footprint(torch.ones(1, 1, height, width), size)[0, :, :, 0] > 0


def steps(height: int, width: int, size: int) -> torch.Tensor:
    """Return a pixel's coordinates minus those of each of its neighbours.

    Parameters
    ----------
    height, width, size : int
        Of the picture and of the window.

    Returns
    -------
    Tensor of float64, shape (size * size, 2)
        Down and right. The picture reaches from -1 to 1 along each side, as in the paper.
    """
    reach = torch.arange(size) - size // 2
    away = torch.cartesian_prod(reach, reach)  # (K, 2), neighbour minus pixel
    unit = torch.tensor([2 / max(height - 1, 1), 2 / max(width - 1, 1)], dtype=torch.float64)
    return -away * unit


def _check_size(size: int) -> None:
    if whole("size", size) < 1 or size % 2 == 0:
        raise ValueError(f"size must be odd, so that a window has a middle; got {size}")


class _WindowAttention(nn.Module):
    """What both kinds share: three maps of a pixel, and a small network that makes weights."""

    def __init__(
        self, channels: int, size: int, hidden: int, values: int | None, share: int, relation: str
    ) -> None:
        super().__init__()
        values = channels if values is None else values
        sizes = {"channels": channels, "hidden": hidden, "values": values, "share": share}
        for name, number in sizes.items():
            if whole(name, number) < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")
        if values % share:
            raise ValueError(f"share = {share} must divide the {values} value channels")
        _check_size(size)
        self.size, self.share, self.relation = size, share, relation
        self.to_query = nn.Conv2d(channels, hidden, 1)
        self.to_key = nn.Conv2d(channels, hidden, 1)
        self.to_value = nn.Conv2d(channels, values, 1)

    def _make_gamma(self, wide: int, hidden: int, out: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(wide, hidden), nn.ReLU(), nn.Linear(hidden, out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Turn a picture (B, C, height, width) into one of `values` channels."""
        weights = self.weights(x)  # (B, N, K, values / share)
        value = footprint(self.to_value(x), self.size)  # (B, N, K, values)
        out = _add_up(weights, value)  # (B, N, values)
        return out.mT.unflatten(2, x.shape[2:])

    def weights(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the weights of every window, shape (B, N, K, values / share)."""
        raise NotImplementedError


def _add_up(weights: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Multiply each value channel by its own weight, and add up the window.

    Weights (B, N, K, G) and values (B, N, K, V) give (B, N, V); V / G neighbouring channels share
    a weight.
    """
    grouped = value.unflatten(-1, (weights.shape[-1], -1))  # (B, N, K, G, V / G)
    return (weights.unsqueeze(-1) * grouped).sum(dim=2).flatten(2)


class PairwiseAttention(_WindowAttention):
    """Weigh each neighbour by what the pixel and that neighbour show: equations 2 and 3.

    Parameters
    ----------
    channels : int
        C of the picture.
    size : int, default 3
        Side of the window, odd. It costs no parameter.
    relation : str
        How pixel and neighbour are compared, one of `PAIRWISE`.
    hidden : int, default 8
        Width of the compared features.
    values : int, optional
        Channels of the result; `channels` by default.
    share : int, default 1
        How many value channels share one weight.
    positions : bool, default True
        Also show the network where the neighbour lies: two learned coordinates.
    normalise : bool, default True
        Softmax over the window. The paper's equations have none, its code has it here.

    Notes
    -----
    A set operation: permuting a window together with its steps changes nothing.
    """

    def __init__(
        self,
        channels: int,
        size: int = 3,
        *,
        relation: str = "subtraction",
        hidden: int = 8,
        values: int | None = None,
        share: int = 1,
        positions: bool = True,
        normalise: bool = True,
    ) -> None:
        _check_name(relation, PAIRWISE)
        super().__init__(channels, size, hidden, values, share, relation)
        self.normalise = normalise
        self.to_position = nn.Linear(2, 2, bias=False) if positions else None
        wide = {"concatenation": 2 * hidden, "dot": 1}.get(relation, hidden) + 2 * positions
        self.gamma = self._make_gamma(wide, hidden, self.to_value.out_channels // share)

    def compare(
        self, query: torch.Tensor, key: torch.Tensor, away: torch.Tensor, seen: torch.Tensor
    ) -> torch.Tensor:
        """Weigh the neighbours of windows given as sets.

        Parameters
        ----------
        query : Tensor, shape (B, N, R)
            Features of the N pixels in the middle.
        key : Tensor, shape (B, N, K, R)
            Features of their K neighbours, in any order.
        away : Tensor, shape (N, K, 2) or (K, 2)
            Where they lie, see `steps`.
        seen : Tensor of bool, shape (N, K)
            False for neighbours outside the picture: their weight is 0.

        Returns
        -------
        Tensor, shape (B, N, K, values / share)
        """
        related = _relate(self.relation, query.unsqueeze(2), key)  # (B, N, K, ...)
        if self.to_position is not None:
            where = self.to_position(away.to(query)).expand(*key.shape[:-1], 2)
            related = torch.cat([related, where], dim=-1)
        scores = self.gamma(related)  # (B, N, K, G)
        if not self.normalise:
            return scores * seen[..., None]
        return scores.masked_fill(~seen[..., None], -torch.inf).softmax(dim=2)

    def weights(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the weights of every window, shape (B, N, K, values / share)."""
        query = self.to_query(x).flatten(2).mT  # (B, N, R)
        key = footprint(self.to_key(x), self.size)  # (B, N, K, R)
        height, width = x.shape[2:]
        away = steps(height, width, self.size)
        seen = inside(height, width, self.size).to(x.device)
        return self.compare(query, key, away, seen)


def _relate(relation: str, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Compare two features of a common width on the last axis."""
    if relation == "concatenation":
        return torch.cat(torch.broadcast_tensors(query, key), dim=-1)
    if relation == "dot":
        return (query * key).sum(-1, keepdim=True)
    if relation == "hadamard":
        return query * key
    return query + key if relation == "summation" else query - key


class PatchwiseAttention(_WindowAttention):
    """Weigh all neighbours at once by what the whole window shows: equation 4.

    Parameters
    ----------
    channels, size, hidden, values, share
        As in `PairwiseAttention`.
    relation : str
        How the window is described, one of `PATCHWISE`.

    Notes
    -----
    No set operation: the weights' network knows which neighbour is which. A network that ignores
    its input gives fixed weights, and then this is a convolution (`depthwise`).
    """

    def __init__(
        self,
        channels: int,
        size: int = 3,
        *,
        relation: str = "concatenation",
        hidden: int = 8,
        values: int | None = None,
        share: int = 1,
    ) -> None:
        _check_name(relation, PATCHWISE)
        super().__init__(channels, size, hidden, values, share, relation)
        window = size * size
        wide = {"star": window, "clique": window**2}.get(relation, hidden * (window + 1))
        groups = self.to_value.out_channels // share
        self.gamma = self._make_gamma(wide, hidden, window * groups)

    def describe(self, x: torch.Tensor) -> torch.Tensor:
        """Describe every window by one vector, shape (B, N, ...)."""
        query, key = self.to_query(x), footprint(self.to_key(x), self.size)
        if self.relation == "clique":
            return (footprint(query, self.size) @ key.mT).flatten(2)
        middle = query.flatten(2).mT.unsqueeze(2)  # (B, N, 1, R)
        if self.relation == "star":
            return (middle @ key.mT).flatten(2)
        return torch.cat([middle, key], dim=2).flatten(2)

    def weights(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the weights of every window, shape (B, N, K, values / share)."""
        return self.gamma(self.describe(x)).unflatten(-1, (self.size**2, -1))


def _check_name(relation: str, names: tuple[str, ...]) -> None:
    if relation not in names:
        raise ValueError(f"relation must be one of {names}, got {relation!r}")


def depthwise(kernel: torch.Tensor) -> PatchwiseAttention:
    """Make a patchwise attention that is a given depthwise convolution.

    Parameters
    ----------
    kernel : Tensor, shape (C, size, size)
        One window of numbers for each channel, size odd.

    Returns
    -------
    PatchwiseAttention
        Values are the picture itself, and the network that makes the weights ignores its input.

    Raises
    ------
    ValueError
        If `kernel` has another shape.
    """
    if kernel.ndim != 3 or kernel.shape[1] != kernel.shape[2]:
        raise ValueError(f"kernel must have shape (C, size, size), got {tuple(kernel.shape)}")
    channels, size = kernel.shape[:2]
    layer = PatchwiseAttention(channels, size).to(kernel)
    state = layer.state_dict()
    state["to_value.weight"] = torch.eye(channels)[:, :, None, None]
    state["to_value.bias"] = torch.zeros(channels)
    state["gamma.2.weight"] = torch.zeros_like(state["gamma.2.weight"])
    state["gamma.2.bias"] = kernel.flatten(1).T.flatten()
    layer.load_state_dict(state)
    return layer
