"""Move numbers between the processes of a group, and count them on the way.

New here: everything that ring and Ulysses attention send goes through the two functions of this
file, so what is counted is what travels. `shift` starts a transfer and returns at once: the caller
computes meanwhile, and waits when it needs what has arrived.

Left out: what torch.distributed adds around our numbers (a few bytes a message), and the small
agreement before a call (`attncourse.parallel.groups`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["Message", "Pending", "exchange", "recorded", "shift"]


class Message(NamedTuple):
    """One transfer that this process started.

    Attributes
    ----------
    sender, receiver : int
        Ranks within the group.
    label : str
        What it carries.
    nbytes : int
        Its size.
    """

    sender: int
    receiver: int
    label: str
    nbytes: int


_logs: list[list[Message]] = []


@contextmanager
def recorded() -> Iterator[list[Message]]:
    """Write down every message that this process sends meanwhile.

    Examples
    --------
    >>> with recorded() as messages:
    ...     pass
    >>> messages
    []
    """
    log: list[Message] = []
    _logs.append(log)
    try:
        yield log
    finally:
        _logs.remove(log)


def _record(message: Message) -> None:
    for log in _logs:
        log.append(message)


@dataclass
class Pending:
    """A transfer on its way."""

    requests: list[Any]
    sent: Tensor
    arriving: Tensor

    def wait(self) -> Tensor:
        """Return what has arrived, once it has, and once what was sent may be changed again."""
        for request in self.requests:
            request.wait()
        return self.arriving


def shift(numbers: Tensor, arriving: int, group: Any, label: str, tag: int = 0) -> Pending:
    """Start to send numbers to the next rank of the ring, and to receive from the one before.

    Parameters
    ----------
    numbers : Tensor, one axis
        What to send; it must not change until `Pending.wait`.
    arriving : int
        How many numbers the rank before sends.
    group : ProcessGroup or None
        The ring; all processes by default.
    label : str
        What the message carries, for `recorded`.
    tag : int, default 0
        Keeps two streams of messages apart, where the backend can.

    Returns
    -------
    Pending
        With a buffer that fills meanwhile.
    """
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    after, before = (rank + 1) % world_size, (rank - 1) % world_size
    buffer = numbers.new_empty(arriving)
    steps = [
        dist.P2POp(dist.isend, numbers, group=group, tag=tag, group_peer=after),
        dist.P2POp(dist.irecv, buffer, group=group, tag=tag, group_peer=before),
    ]
    _record(Message(rank, after, label, numbers.nbytes))
    return Pending(dist.batch_isend_irecv(steps), numbers, buffer)


def exchange(parts: Sequence[Tensor], arriving: Sequence[int], group: Any, label: str) -> list:
    """Send one part to each rank, and receive one from each (all-to-all).

    Parameters
    ----------
    parts : sequence of Tensor, one axis each
        What goes to each rank, the own one included; they may have any sizes.
    arriving : sequence of int
        How many numbers come from each rank.
    group, label
        As in `shift`.

    Returns
    -------
    list of Tensor
        One part from each rank.
    """
    rank = dist.get_rank(group)
    for receiver, part in enumerate(parts):
        if receiver != rank and part.numel():
            _record(Message(rank, receiver, label, part.nbytes))
    buffer = parts[0].new_empty(sum(arriving))
    dist.all_to_all_single(
        buffer, torch.cat(list(parts)), list(arriving), [len(part) for part in parts], group=group
    )
    return list(buffer.split(list(arriving)))
