"""Ring attention: every device keeps its queries, the keys and values travel round.

New here: softmax can be merged. A device attends to the keys that are visiting, merges the result
into what it has (`attncourse.softmax.merge`), and meanwhile the next keys are on their way. After
one round every query has met every key, and no device ever held more than two parts of the keys.
Backwards, the keys make the same round, and their gradients travel with them until they are home.

Left out: masks other than causal, dropout, and queries of other tokens than the keys.

Check it with: torchrun --standalone --nproc-per-node 2 -m attncourse.parallel.ring --check
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attncourse import softmax
from attncourse.call import Call
from attncourse.parallel import groups, sharding, wire
from attncourse.rungs import attention, recompute

__all__ = ["ring_attention"]

_KEYS, _GRADIENTS = 1, 2  # tags that keep the two streams of messages apart


def ring_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    schedule: str = "zigzag",
    group: Any = None,
    rung: str = "auto",
    seq_len: int | None = None,
) -> Tensor:
    """Attend from this rank's tokens to the tokens of all ranks.

    Parameters
    ----------
    query, key, value : Tensor, shapes (B, H, l, E), (B, Hkv, l, E), (B, Hkv, l, Ev)
        The rank's part of the sequence, as `attncourse.parallel.sharding.shard` cuts it; Hkv
        divides H. The parts need not be equally long.
    is_causal, scale
        As in `attncourse.attention`.
    schedule : {"zigzag", "plain"}
        How the sequence was dealt out.
    group : ProcessGroup, optional
        The ring; all processes by default.
    rung : str, default "auto"
        Which rung attends to a visitor. It must give `lse`.
    seq_len : int, optional
        Tokens of the whole sequence. By default the ranks ask each other at every call, and find
        out if they disagree about anything; with it they trust the caller.

    Returns
    -------
    Tensor, shape (B, H, l, Ev)
        This rank's part of the output, in the type of `query`.

    Raises
    ------
    ValueError, TypeError
        When this rank's inputs do not fit together, or do not fit those of the other ranks.
    NotImplementedError
        When the rung lacks something that this needs, such as `lse`.
    RuntimeError
        When another rank has refused its inputs, is gone, or does not answer in time.

    Notes
    -----
    Partial results are float32 or wider, merged by one lse a row: scores of ±1e6 and more leave it
    too few digits in float32, forwards and backwards. Each rank sends keys and values
    world_size - 1 times forwards; backwards it sends them again, and their gradients as often.
    **Source:** Liu, Zaharia and Abbeel 2024 (arXiv:2310.01889).
    """
    limits = {"is_causal": is_causal, "schedule": schedule, "group": group, "seq_len": seq_len}
    options: Any = {"scale": scale, "enable_gqa": True, "rung": rung}

    @torch.no_grad()
    def trial(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return attention(q, k, v, is_causal=is_causal, return_lse=True, **options)

    ring = _Ring(
        team=groups.join(query, key, value, scale=scale, trial=trial, **limits),
        is_causal=is_causal,
        scale=query.shape[-1] ** -0.5 if scale is None else scale,
        rung=rung,
        heads=key.shape[:2],
        widths=(key.shape[3], value.shape[3]),
    )
    return _RingAttention.apply(query, key, value, ring)


@dataclass(frozen=True)
class _Ring:
    """What a call fixes beside its tensors."""

    team: groups.Team
    is_causal: bool
    scale: float
    rung: str
    heads: tuple[int, ...]
    widths: tuple[int, int]

    def before(self, source: int) -> int:
        """Name the rank behind another one on the ring."""
        return (source - 1) % self.team.world_size

    def size(self, source: int) -> int:
        """Count what the keys and values of a rank amount to, in numbers."""
        batch, heads = self.heads
        return batch * heads * self.team.lengths[source] * sum(self.widths)

    def unpack(self, packed: Tensor, source: int) -> tuple[Tensor, Tensor]:
        """Turn the numbers of a rank back into its keys and values."""
        shape = (*self.heads, self.team.lengths[source])
        share = math.prod(shape) * self.widths[0]
        k, v = packed[:share], packed[share:]
        return k.view(*shape, self.widths[0]), v.view(*shape, self.widths[1])

    def meetings(self, source: int) -> list[tuple[slice, slice, bool]]:
        """List which of this rank's rows meet which of a visitor's columns."""
        own = self.team.runs(self.team.rank)
        return sharding.meetings(own, self.team.runs(source), is_causal=self.is_causal)


def _pack(k: Tensor, v: Tensor) -> Tensor:
    return torch.cat([k.reshape(-1), v.reshape(-1)])


def _visitors(packed: Tensor, ring: _Ring) -> Iterator[tuple[int, Tensor]]:
    """Yield the keys and values of each rank, the own first, while the next are on their way."""
    source, group = ring.team.rank, ring.team.group
    for step in range(ring.team.world_size):
        pending, label = None, f"keys of {source}"
        if step + 1 < ring.team.world_size:
            arriving = ring.size(ring.before(source))
            pending = wire.shift(packed, arriving, group, label, _KEYS)
        yield source, packed
        if pending is not None:
            source, packed = ring.before(source), pending.wait()


def _forward(
    query: Tensor,
    packed: Tensor,
    ring: _Ring,
) -> tuple[Tensor, Tensor]:
    """Meet every visitor, and merge what it gives."""
    q = _wide(query)
    out = q.new_zeros(*q.shape[:-1], ring.widths[1])  # (B, H, l, Ev)
    lse = q.new_full(q.shape[:-1], -torch.inf)  # (B, H, l)
    for source, visitor in _visitors(packed, ring):
        k, v = (_wide(x) for x in ring.unpack(visitor, source))
        for rows, cols, triangle in ring.meetings(source):
            part = attention(
                *(q[..., rows, :], k[..., cols, :], v[..., cols, :]),
                is_causal=triangle,
                scale=ring.scale,
                enable_gqa=True,
                return_lse=True,
                rung=ring.rung,
            )
            merged = softmax.merge(out[..., rows, :], lse[..., rows], *part)
            out[..., rows, :], lse[..., rows] = merged
    return out, lse


def _backward(
    query: Tensor, packed: Tensor, results: tuple[Tensor, ...], ring: _Ring
) -> tuple[Tensor, Tensor]:
    """Meet every visitor again, and send its gradients along with it until they are home."""
    own = (_wide(query), *results)
    grad_q, home, pending = torch.zeros_like(own[0]), None, None
    for source, visitor in _visitors(packed, ring):
        mine = _send_back(own, visitor, source, grad_q, ring)
        if home is None:
            home = mine  # what this rank's queries send to its own keys does not travel
            continue
        if pending is not None:
            mine += pending.wait()  # what the ranks before have sent to this visitor
        arriving, label = ring.size(ring.before(source)), f"gradients of {source}"
        pending = wire.shift(mine, arriving, ring.team.group, label, _GRADIENTS)
    assert home is not None
    if pending is not None:
        home += pending.wait()
    return grad_q, home


def _send_back(
    own: tuple[Tensor, ...], visitor: Tensor, source: int, grad_q: Tensor, ring: _Ring
) -> Tensor:
    """Add to the gradient of the queries, and return that of the visitor, packed."""
    q, out, lse, grad_out = own
    k, v = (_wide(x) for x in ring.unpack(visitor, source))
    grad_k, grad_v = torch.zeros_like(k), torch.zeros_like(v)
    for rows, cols, triangle in ring.meetings(source):
        parts = (q[..., rows, :], k[..., cols, :], v[..., cols, :])
        # One lse a row is what partial results are merged by: a maximum whose sum is 1.
        peak = lse[..., rows, None]  # (B, H, l, 1)
        results = (out[..., rows, :], peak, torch.ones_like(peak), grad_out[..., rows, :])
        call = Call.of(*parts, is_causal=triangle, scale=ring.scale, enable_gqa=True)
        grads = recompute.walk_back(*parts, call, recompute.Results(*results))
        grad_q[..., rows, :] += grads.q
        grad_k[..., cols, :] += grads.k
        grad_v[..., cols, :] += grads.v
    return _pack(grad_k, grad_v)


class _RingAttention(torch.autograd.Function):
    """Forward and backward pass, tied together for autograd."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, ring: _Ring) -> Tensor:
        """Go round once; keep the own part of everything."""
        packed = _pack(key, value)
        with torch.autocast(query.device.type, enabled=False):
            out, lse = _forward(query, packed, ring)
        ctx.save_for_backward(query, packed, out, lse)
        ctx.ring = ring
        return out.to(query.dtype)

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        """Go round once more."""
        if torch.is_grad_enabled():
            raise RuntimeError("ring_attention has no second derivatives")
        query, packed, out, lse = ctx.saved_tensors
        results = (out, lse, grad_out.to(out.dtype))
        grad_q, home = _backward(query, packed, results, ctx.ring)
        grad_k, grad_v = ctx.ring.unpack(home, ctx.ring.team.rank)
        return *(grad.to(query.dtype) for grad in (grad_q, grad_k, grad_v)), None


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


if __name__ == "__main__":
    from attncourse.parallel import check

    sys.exit(check.main("ring", ring_attention))
