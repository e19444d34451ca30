"""Simulate attention on up to thousands of devices, with a stated machine.

New here: the time of a step is decided by the slowest of three: the work, the link, and the
neighbour one must wait for. `ring` plays the loop of `attncourse.parallel.ring` for every device at
once: send what visits, compute, wait for both. Its messages, in order and size, are those that real
processes send; its seconds are as good as the machine that is put in.

Left out: everything but attention, memory traffic inside a device, and links that get crowded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from attncourse.parallel import budget, sharding
from attncourse.parallel.budget import Call

__all__ = ["Machine", "Timeline", "bound", "held", "ring", "ulysses"]


_MOSTLY = 0.75


@dataclass(frozen=True)
class Machine:
    """What a device and its links can do. Nothing here is measured.

    Attributes
    ----------
    flops : float
        FLOP/s that attention reaches on one device.
    memory : float
        Bytes of one device.
    per_host : int
        Devices that share the fast links of a host.
    inside, between : float
        Bytes/s that a device sends to one in its host, and to one in another host.
    latency : float
        Seconds that a message costs beside its bytes.
    layers : int
        How many layers keep their tokens for the backward pass.
    """

    flops: float = 4e14
    memory: float = 80e9
    per_host: int = 8
    inside: float = 4e11
    between: float = 5e10
    latency: float = 1e-5
    layers: int = 32

    def ring_links(self, world_size: int) -> np.ndarray:
        """Return the bytes/s of the link from each rank to the next, shape (world_size,)."""
        ranks = np.arange(world_size)
        same = ranks // self.per_host == (ranks + 1) % world_size // self.per_host
        return np.where(same, self.inside, self.between)


@dataclass(frozen=True)
class Timeline:
    """How one call went.

    Attributes
    ----------
    seconds : float
        Until the last rank was done.
    computing : ndarray, shape (ranks,)
        Seconds that each rank computed.
    nbytes : ndarray, shape (hops, ranks)
        What each rank sent, in order.
    sources : ndarray, shape (hops, ranks)
        Whose keys these were.
    ideal : float
        Seconds if the work were shared evenly and nobody waited.
    """

    seconds: float
    computing: np.ndarray
    nbytes: np.ndarray
    sources: np.ndarray
    ideal: float

    @property
    def efficiency(self) -> float:
        """The share of the time in which the average device computes."""
        return self.ideal / self.seconds


def ring(call: Call, machine: Machine | None = None) -> Timeline:
    """Play a forward pass of ring attention.

    Parameters
    ----------
    call : Call
        The sizes.
    machine : Machine, optional
        The stated one by default.

    Returns
    -------
    Timeline
    """
    machine = machine or Machine()
    work = budget.flops(call) / machine.flops  # (steps, ranks), in seconds
    sources = call.sources()[:-1]  # the last visitor is not sent on
    nbytes = budget.keys_of(call)[sources]  # (hops, ranks)
    flight = machine.latency + nbytes / machine.ring_links(call.world_size)
    ready = np.zeros(call.world_size)
    for step in range(call.world_size):
        done = ready + work[step]
        if step < len(sources):
            # A transfer begins when both ends have come to this step.
            arrived = np.maximum(ready, np.roll(ready, -1)) + flight[step]  # at the next rank
            done = np.maximum(done, np.maximum(arrived, np.roll(arrived, 1)))
        ready = done
    ideal = work.sum() / call.world_size
    return Timeline(float(ready.max()), work.sum(axis=0), nbytes, sources, float(ideal))


def ulysses(call: Call, machine: Machine | None = None) -> float:
    """Predict the seconds of a forward pass of Ulysses attention; nothing overlaps.

    Raises
    ------
    ValueError
        When there are more ranks than query heads.
    """
    machine, ranks = machine or Machine(), call.world_size
    sharding.heads_of(call.heads, call.kv_heads, 0, ranks)
    work = budget.flops(call).sum() / ranks / machine.flops
    if ranks == 1:
        return float(work)
    each = budget.bytes_sent("ulysses", call) / ranks / (ranks - 1)  # from a rank to a rank
    near = min(machine.per_host, ranks) - 1
    wire = max(near * each / machine.inside, (ranks - 1 - near) * each / machine.between)
    return float(work + wire + 4 * machine.latency)


def held(call: Call, machine: Machine | None = None) -> int:
    """Predict the bytes of tokens on the fullest device while a whole model is trained.

    Returns
    -------
    int
        Queries, keys, values and outputs of all layers, and what one layer's ring adds. Weights
        and everything between attentions are not counted.
    """
    machine = machine or Machine()
    kept = budget.bytes_held("ring", replace(call, world_size=1))[0] / call.world_size
    busy = budget.bytes_held("ring", call, "backward").max()
    return int((machine.layers - 1) * kept + busy)


def bound(call: Call, machine: Machine | None = None) -> str:
    """Say what limits a call on the ring.

    Returns
    -------
    {"memory", "compute", "balance", "link"}
        The tokens do not fit; else the average device computes for three quarters of the time or
        more; else the busiest device does, while others wait; else all wait for the links.
    """
    machine = machine or Machine()
    if held(call, machine) > machine.memory:
        return "memory"
    timeline = ring(call, machine)
    if timeline.efficiency >= _MOSTLY:
        return "compute"
    return "balance" if timeline.computing.max() >= _MOSTLY * timeline.seconds else "link"
