"""A small Transformer whose attention is an argument: all else stays the same.

The one idea: to compare ways of mixing tokens, change nothing but the mixing. Any function from
queries, keys and values to outputs fits: softmax from the ladder under a mask, linear, polynomial.
Left out: dropout, post-norm, caches, and padding.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from attncourse import _validate

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
READ = ("mean", "last", "each")


class MixerBlock(nn.Module):
    """Mix the tokens, then think about each: both parts add to what they read.

    Parameters
    ----------
    attend : callable
        ``attend(query, key, value) -> out``, all (B, H, n, E).
    d_model, num_heads : int
        Width of a token; number of heads, a divisor of it.
    normalise : bool, default True
        Normalise what each part reads.

    Notes
    -----
    Queries, keys and values start with variance 1: the premise under which scores are scaled.
    """

    def __init__(
        self, attend: Attend, d_model: int, num_heads: int, *, normalise: bool = True
    ) -> None:
        super().__init__()
        _at_least_one(d_model=d_model, num_heads=num_heads)
        if d_model % num_heads:
            raise ValueError(f"d_model is {d_model}: it must be a multiple of {num_heads} heads")
        self.attend, self.num_heads = attend, num_heads
        self.norm, self.thinking_norm = (_norm(d_model, normalise) for _ in range(2))
        self.project = nn.Linear(d_model, 3 * d_model)
        nn.init.normal_(self.project.weight, std=d_model**-0.5)
        self.join = nn.Linear(d_model, d_model)
        self.think = nn.Sequential(
            nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, d_model)
        )

    def heads(self, x: Tensor) -> Tensor:
        """Turn tokens (B, n, d_model) into queries, keys and values, (3, B, H, n, E)."""
        parts = self.project(self.norm(x)).unflatten(-1, (3, self.num_heads, -1))
        return parts.permute(2, 0, 3, 1, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Turn tokens (B, n, d_model) into tokens of the same shape."""
        mixed = self.attend(*self.heads(x))  # (B, H, n, E)
        x = x + self.join(mixed.transpose(1, 2).flatten(2))
        return x + self.think(self.thinking_norm(x))


class Patches(nn.Module):
    """Cut pictures into squares and map each to a token.

    Parameters
    ----------
    side : int
        Pixels along a square.
    d_model : int
        Width of a token.
    """

    def __init__(self, side: int, d_model: int) -> None:
        super().__init__()
        _at_least_one(side=side, d_model=d_model)
        self.side = side
        self.cut, self.map = nn.Unfold(side, stride=side), nn.Linear(side**2, d_model)

    def forward(self, pictures: Tensor) -> Tensor:
        """Turn grey pictures (B, 1, height, width) into tokens (B, n, d_model)."""
        if (
            pictures.ndim != 4
            or pictures.shape[1] != 1
            or any(pixels % self.side for pixels in pictures.shape[2:])
        ):
            raise ValueError(
                f"wanted grey pictures (B, 1, height, width), both sides multiples of "
                f"{self.side}; got shape {tuple(pictures.shape)}"
            )
        return self.map(self.cut(pictures).mT)


class Mixer(nn.Module):
    """Embed tokens, mix them a few times, and answer.

    Parameters
    ----------
    attend : callable
        As in `MixerBlock`; the same in every block.
    embed : nn.Module
        Turns the input into vectors (B, n, d_model).
    seq_len : int
        n: there is a learned vector for each position.
    num_answers : int
        Classes to choose from.
    d_model, num_heads, depth : int
        Width, heads, and number of blocks.
    normalise : bool, default True
        Layer normalisation before each part of a block and before the answer.
    read : {"mean", "last", "each"}
        Answer from the mean of all tokens, from the last one, or at every position.
    """

    def __init__(
        self,
        attend: Attend,
        embed: nn.Module,
        *,
        seq_len: int,
        num_answers: int,
        d_model: int = 48,
        num_heads: int = 4,
        depth: int = 2,
        normalise: bool = True,
        read: str = "mean",
    ) -> None:
        super().__init__()
        if read not in READ:
            raise ValueError(f"read must be one of {READ}, got {read!r}")
        _at_least_one(seq_len=seq_len, num_answers=num_answers, depth=depth)
        self.read, self.embed = read, embed
        self.places = nn.Parameter(0.2 * torch.randn(seq_len, d_model))
        self.blocks = nn.Sequential(
            *(MixerBlock(attend, d_model, num_heads, normalise=normalise) for _ in range(depth))
        )
        self.norm = _norm(d_model, normalise)
        self.answer = nn.Linear(d_model, num_answers)

    def forward(self, inputs: Tensor) -> Tensor:
        """Turn a batch into scores of the answers: (B, C), or (B, n, C) if read at each."""
        x = self.embed(inputs)  # (B, n, d_model)
        if x.shape[1:] != self.places.shape:
            raise ValueError(
                f"embed gave tokens of shape {tuple(x.shape[1:])}, wanted (seq_len, d_model) = "
                f"{tuple(self.places.shape)}"
            )
        x = self.norm(self.blocks(x + self.places))
        if self.read != "each":
            x = x.mean(dim=1) if self.read == "mean" else x[:, -1]
        return self.answer(x)


def _at_least_one(**counts: int) -> None:
    for name, count in counts.items():
        if _validate.whole(name, count) < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")


def _norm(d_model: int, normalise: bool) -> nn.Module:
    return nn.LayerNorm(d_model) if normalise else nn.Identity()
