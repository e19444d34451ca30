"""Ulysses attention: trade tokens for heads, attend as on one device, trade back.

New here: one exchange between all ranks. Before it, a rank holds a part of the tokens with all
heads; after it, all tokens with a part of the heads. Heads do not meet in attention, so each rank
now works as if it were alone, under any causal mask without imbalance. A second exchange brings
the outputs back to the ranks of their tokens.

Left out: more ranks than heads. That is where ring attention goes on.

Check it with: torchrun --standalone --nproc-per-node 2 -m attncourse.parallel.ulysses --check
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attncourse.parallel import groups, sharding, wire
from attncourse.parallel.groups import Team
from attncourse.rungs import attention

__all__ = ["ulysses_attention"]


def ulysses_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    schedule: str = "plain",
    group: Any = None,
    rung: str = "auto",
    seq_len: int | None = None,
) -> Tensor:
    """Attend from this rank's tokens to the tokens of all ranks.

    Parameters
    ----------
    query, key, value, is_causal, scale, group, rung, seq_len
        As in `attncourse.parallel.ring.ring_attention`.
    schedule : {"plain", "zigzag"}
        How the sequence was dealt out. It makes no difference to the work here.

    Returns
    -------
    Tensor, shape (B, H, l, Ev)
        This rank's part of the output, in the type of `query`.

    Raises
    ------
    ValueError, TypeError, RuntimeError
        As `ring_attention`; also when there are more ranks than query heads.

    Notes
    -----
    A rank sends (world_size - 1) / world_size of its queries, keys, values and outputs once
    forwards, and of their gradients once backwards. A key head that serves query heads of several
    ranks is sent to each of them. **Source:** Jacobs et al. 2023 (arXiv:2309.14509).
    """
    limits = {"is_causal": is_causal, "schedule": schedule, "group": group, "seq_len": seq_len}
    options: Any = {"is_causal": is_causal, "scale": scale, "enable_gqa": True, "rung": rung}

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return attention(q, k, v, **options)

    team = groups.join(query, key, value, scale=scale, trial=attend, **limits)
    num_heads, num_kv_heads = query.shape[1], key.shape[1]
    shares = [
        sharding.heads_of(num_heads, num_kv_heads, r, team.world_size)
        for r in range(team.world_size)
    ]
    own_heads, own_kv_heads = shares[team.rank]
    q = _Trade.apply(query, [heads for heads, _ in shares], "queries", team)  # (B, h, n, E)
    k, v = (
        _Trade.apply(x, [kv_heads for _, kv_heads in shares], name, team)  # (B, hkv, n, E)
        for x, name in ((key, "keys"), (value, "values"))
    )
    group_size = num_heads // num_kv_heads
    serving = [head // group_size - own_kv_heads.start for head in _numbers(own_heads)]
    if serving != sorted(_numbers(slice(0, k.shape[1])) * group_size):
        k, v = k[:, serving], v[:, serving]  # groups that are cut through: a key head per head
    out = attend(q, k, v)
    return _TradeBack.apply(out, [heads for heads, _ in shares], "outputs", team)


def _numbers(heads: slice) -> list[int]:
    return list(range(heads.start, heads.stop))


def _positions(team: Team) -> Tensor:
    """List the positions of all tokens, rank by rank, each rank's in the order it holds them."""
    stretches = [run for rank in range(team.world_size) for run in team.runs(rank)]
    return torch.from_numpy(np.concatenate([np.arange(s.start, s.stop) for s in stretches]))


def _to_heads(tokens: Tensor, shares: list[slice], label: str, team: Team) -> Tensor:
    """Turn (B, all heads, own tokens, E) into (B, own heads, all tokens, E)."""
    batch, _, _, width = tokens.shape
    own = len(_numbers(shares[team.rank]))
    parts = [tokens[:, heads].reshape(-1) for heads in shares]
    arriving = [batch * own * length * width for length in team.lengths]
    received = wire.exchange(parts, arriving, team.group, label)
    pieces = [
        numbers.view(batch, own, length, width)
        for numbers, length in zip(received, team.lengths, strict=True)
    ]
    together = torch.cat(pieces, dim=2)  # (B, h, n, E), rank by rank
    whole = torch.empty_like(together)
    whole[:, :, _positions(team).to(whole.device)] = together
    return whole


def _to_tokens(heads: Tensor, shares: list[slice], label: str, team: Team) -> list[Tensor]:
    """Turn (B, own heads, all tokens, E) into one (B, heads of a rank, own tokens, E) a rank."""
    batch, _, _, width = heads.shape
    by_rank = heads[:, :, _positions(team).to(heads.device)].split(list(team.lengths), dim=2)
    parts = [part.reshape(-1) for part in by_rank]
    length, counts = team.lengths[team.rank], [len(_numbers(share)) for share in shares]
    arriving = [batch * count * length * width for count in counts]
    received = wire.exchange(parts, arriving, team.group, label)
    return [
        numbers.view(batch, count, length, width)
        for numbers, count in zip(received, counts, strict=True)
    ]


class _Trade(torch.autograd.Function):
    """Give away tokens of other heads, receive other tokens of the own heads."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, shares: list[slice], label: str, team: Team) -> Tensor:
        """Go from tokens to heads."""
        ctx.call = (shares, label, team)
        ctx.num_heads = tokens.shape[1]
        return _to_heads(tokens, shares, label, team)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Go back, and add up what comes from several ranks for one key head."""
        shares, label, team = ctx.call
        parts = _to_tokens(grad, shares, f"gradients of {label}", team)
        total = parts[0].new_zeros(parts[0].shape[0], ctx.num_heads, *parts[0].shape[2:])
        for heads, part in zip(shares, parts, strict=True):
            total[:, heads] += part
        return total, None, None, None


class _TradeBack(torch.autograd.Function):
    """Give away other tokens of the own heads, receive the own tokens of other heads."""

    @staticmethod
    def forward(ctx: Any, heads: Tensor, shares: list[slice], label: str, team: Team) -> Tensor:
        """Go from heads to tokens."""
        ctx.call = (shares, label, team)
        return torch.cat(_to_tokens(heads, shares, label, team), dim=1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Go back."""
        shares, label, team = ctx.call
        return _to_heads(grad, shares, f"gradients of {label}", team), None, None, None


if __name__ == "__main__":
    from attncourse.parallel import check

    sys.exit(check.main("ulysses", ulysses_attention))
