"""Rotary positions inside a model: the table of angles is computed once and shared.

New here: nothing but thrift. `attncourse.positions.rotary` computes its sines and cosines on every
call; a model asks for the same ones in every layer and at every step.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from attncourse import positions

PAIRINGS = ("half", "interleaved")


def check_pairing(pairing: str | None, head_dim: int) -> None:
    """Check the name of a pairing, and that the head's components come in pairs.

    Raises
    ------
    ValueError
        For a name that `attncourse.positions.rotary` does not know, or an odd `head_dim`.
    """
    if pairing is None:
        return
    if pairing not in PAIRINGS:
        raise ValueError(f"rotary must be None or one of {PAIRINGS}, got {pairing!r}")
    if head_dim % 2:
        raise ValueError(f"rotary positions need an even head_dim, got {head_dim}")


def turn(x: Tensor, start: int, base: float, pairing: str) -> Tensor:
    """Turn heads by the positions start, start + 1, ….

    Parameters
    ----------
    x : Tensor, shape (B, H, L, E)
        Queries or keys.
    start : int
        Position of the first one.
    base : float
        As in `attncourse.positions.rotary`.
    pairing : {"half", "interleaved"}
        As there.

    Returns
    -------
    Tensor, shape (B, H, L, E)
        What `attncourse.positions.rotary` gives: computed in float32 or wider, rounded once.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    stop = start + x.shape[-2]
    # While torch compiles or exports, sizes may be symbols, and what is made must not be kept.
    if torch.compiler.is_compiling() or type(x) is not Tensor:
        return positions.turn(x, *_fresh_table(start, stop, x.shape[-1], base, x.device), pairing)
    room = max(64, 1 << (stop - 1).bit_length()) if stop else 64
    if pairing == "interleaved":  # neighbours are a complex number, and one product turns them
        table = _complex_table(room, x.shape[-1], base, wide, x.device)[start:stop]
        pairs = torch.view_as_complex(x.to(wide).reshape(*x.shape[:-1], -1, 2))  # (B, H, L, E / 2)
        return torch.view_as_real(pairs * table).flatten(-2).to(x.dtype)
    cos, sin = _table(room, x.shape[-1], base, wide, x.device)  # (room, E / 2)
    return positions.turn(x, cos[start:stop], sin[start:stop], pairing)


def _fresh_table(
    start: int, stop: int, width: int, base: float, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Compute cosines and sines in torch alone, (stop - start, width / 2)."""
    exact = torch.float32 if device.type == "mps" else torch.float64
    steps = torch.arange(start, stop, dtype=exact, device=device)
    frequencies = base ** (-torch.arange(0, width, 2, dtype=exact, device=device) / width)
    angles = steps[:, None] * frequencies
    return angles.cos(), angles.sin()


@lru_cache(maxsize=16)
def _table(
    room: int, width: int, base: float, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Compute the cosines and sines of the first `room` positions."""
    tables = positions.rotary_table(range(room), width, base=base)
    with torch.inference_mode(False):  # training may use it later
        cos, sin = (torch.as_tensor(table, dtype=dtype, device=device) for table in tables)
    return cos, sin


@lru_cache(maxsize=16)
def _complex_table(
    room: int, width: int, base: float, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Compute the same as complex numbers of length 1."""
    with torch.inference_mode(False):
        return torch.complex(*_table(room, width, base, dtype, device))
