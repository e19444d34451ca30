"""Let the processes of a group agree before they start something together.

New here: a collective operation in which one process brings another shape than the rest hangs, or
mixes up numbers. So everybody first tells everybody what it brings, in one small message. Then
either all go on, or all raise an error, and the same one wherever it is about a difference.

Left out: errors in the middle of the work (`attncourse.parallel.launch` ends those).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from attncourse import _validate
from attncourse.parallel import sharding

__all__ = ["Team", "device_of", "gather_facts", "join"]

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_NAMES = (
    *("batch", "heads", "key heads", "query width", "value width", "dtype", "causal", "order"),
    *("scale", "inputs that need gradients"),
)


# Stands for a scale that was left open: one that is given must be finite.
_OPEN = math.nan


@dataclass(frozen=True)
class Team:
    """The ranks that work on one sequence, and what each holds.

    Attributes
    ----------
    rank : int
        This process's place in the group.
    lengths : tuple of int
        How many tokens each rank holds.
    schedule : str
        How they were dealt out.
    group : ProcessGroup or None
        Who takes part.
    """

    rank: int
    lengths: tuple[int, ...]
    schedule: str
    group: Any

    @property
    def world_size(self) -> int:
        """How many ranks there are."""
        return len(self.lengths)

    @property
    def seq_len(self) -> int:
        """Tokens of the whole sequence."""
        return sum(self.lengths)

    def runs(self, rank: int) -> list[slice]:
        """Tell which stretches of the sequence a rank holds."""
        return sharding.runs(self.seq_len, rank, self.world_size, self.schedule)


def device_of(group: Any) -> torch.device:
    """Return where a tensor must live that is sent through the group."""
    if dist.get_backend(group) == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def gather_facts(facts: list[int], group: Any = None) -> list[list[int]]:
    """Tell every process the whole numbers of every process.

    Parameters
    ----------
    facts : list of int
        As many on every rank.
    group : ProcessGroup, optional
        All processes by default.

    Returns
    -------
    list of list of int
        One list a rank.
    """
    mine = torch.tensor(facts, dtype=torch.int64, device=device_of(group))
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(everyone, mine, group=group)
    return [numbers.tolist() for numbers in everyone]


def join(
    query: Any,
    key: Any,
    value: Any,
    *,
    is_causal: bool,
    schedule: str,
    group: Any = None,
    seq_len: int | None = None,
    scale: float | None = None,
    trial: Callable[[Tensor, Tensor, Tensor], Any] | None = None,
) -> Team:
    """Check one rank's part of a self-attention, and that all ranks bring parts of the same one.

    Parameters
    ----------
    query, key, value : Tensor, shapes (B, H, l, E), (B, Hkv, l, E), (B, Hkv, l, Ev)
        The rank's tokens.
    is_causal, schedule, group
        As in `attncourse.parallel.ring.ring_attention`.
    seq_len : int, optional
        Tokens of the whole sequence; with it nobody asks anybody.
    scale : float, optional
        As there too.
    trial : callable, optional
        What is to be computed; it is given no token at all, so that what it refuses, such as an
        unknown rung, is known before anything is sent.

    Returns
    -------
    Team

    Raises
    ------
    ValueError, TypeError
        When this rank's inputs do not fit together; on every rank, when the ranks disagree.
    RuntimeError
        On the other ranks, when one has refused its inputs.
    """
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    refusal, facts, own = None, [0] * len(_NAMES), 0
    try:
        facts = _checked_facts(query, key, value, is_causal, schedule)
        if trial is not None:
            trial(*(x[..., :0, :] for x in (query, key, value)))
        facts += [_bits(_OPEN if scale is None else scale), _needing_gradients(query, key, value)]
        own = query.shape[-2]
    except (TypeError, ValueError, NotImplementedError) as error:
        refusal, facts = error, [0] * len(_NAMES)  # as many numbers as the others bring
    if seq_len is None:
        lengths = _agreed_lengths([own, *facts], group, refusal)
    else:
        lengths = sharding.lengths(seq_len, world_size, schedule)
    if refusal is not None:
        raise refusal
    wanted = sharding.lengths(sum(lengths), world_size, schedule)
    if lengths != wanted or lengths[rank] != own:
        raise ValueError(
            f"schedule {schedule!r} deals {sum(lengths)} tokens out as {wanted}, but the ranks "
            f"hold {lengths} and this one {own}: cut with attncourse.parallel.sharding.shard"
        )
    return Team(rank, tuple(lengths), schedule, group)


def _checked_facts(query: Any, key: Any, value: Any, is_causal: bool, schedule: str) -> list[int]:
    """Return the numbers that `_NAMES` names, or raise what is wrong with this rank's part."""
    for tensor in (query, key, value):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"wanted torch tensors, got {type(tensor).__name__}")
    if query.ndim != 4:
        raise ValueError(f"query must have the axes (B, H, L, E), got {tuple(query.shape)}")
    _validate.dtypes(query, key, value)
    _validate.shapes(query, key, value, True)
    _validate.options(is_causal=is_causal)
    sharding.check_schedule(schedule)
    if query.shape[-2] != key.shape[-2]:
        raise ValueError(
            f"a rank holds the queries and keys of the same tokens, but query has "
            f"{query.shape[-2]} of them and key {key.shape[-2]}: shapes {tuple(query.shape)} "
            f"and {tuple(key.shape)}"
        )
    widths = (*query.shape[:2], key.shape[1], query.shape[3], value.shape[3])
    order = sharding.SCHEDULES.index(schedule)
    return [*widths, _DTYPES.index(query.dtype), int(is_causal), order]


def _bits(number: float) -> int:
    """Spell a number as a whole one, bit by bit."""
    return struct.unpack("<q", struct.pack("<d", number))[0]


def _needing_gradients(*tensors: Tensor) -> int:
    """Spell which inputs need gradients as a number: all ranks go backwards, or none does."""
    wanted = [x.requires_grad and torch.is_grad_enabled() for x in tensors]
    return sum(2**place for place, wants in enumerate(wanted) if wants)


def _in_words(name: str, fact: int) -> str:
    """Say what a fact of `_NAMES` means."""
    if name == "dtype":
        return str(_DTYPES[fact])
    if name == "order":
        return sharding.SCHEDULES[fact]
    if name == "scale":
        scale = struct.unpack("<d", struct.pack("<q", fact))[0]
        return "left open" if math.isnan(scale) else f"{scale:g}"
    if name == "inputs that need gradients":
        inputs = ("query", "key", "value")
        return ", ".join(x for place, x in enumerate(inputs) if fact >> place & 1) or "none"
    return str(bool(fact) if name == "causal" else fact)


def _agreed_lengths(brought: list[int], group: Any, refusal: Exception | None) -> list[int]:
    """Compare what the ranks bring, and return how many tokens each one holds."""
    everyone = gather_facts([int(refusal is not None), *brought], group)
    if refusal is not None:
        return []
    refused = [rank for rank, facts in enumerate(everyone) if facts[0]]
    if refused:
        raise RuntimeError(f"rank {refused[0]} refused its inputs; its own error says why")
    for place, name in enumerate(_NAMES, start=2):
        values = [facts[place] for facts in everyone]
        odd = next((rank for rank, value in enumerate(values) if value != values[0]), None)
        if odd is not None:
            first, other = (_in_words(name, value) for value in (values[0], values[odd]))
            raise ValueError(
                f"the ranks disagree: {name}: {first} on rank 0, {other} on "
                f"rank {odd}; every rank must bring its part of one and the same call"
            )
    return [facts[1] for facts in everyone]
