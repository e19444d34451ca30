"""What each rank computes, sends and holds in one call, predicted.

New here: nothing runs. The formulas count visible pairs, bytes on the wire and bytes in memory for
ring and Ulysses attention; `attncourse.parallel.check` holds the first two to real runs, and
`attncourse.parallel.cluster` turns them into time on a stated machine.

Left out: the few bytes of the ranks' agreement before a call, and what a rung needs inside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attncourse.parallel import sharding

__all__ = ["METHODS", "Call", "bytes_held", "bytes_sent", "flops", "keys_of", "pairs"]

METHODS = ("ring", "ulysses")
WAYS = ("forward", "backward")
_WIDE = 4  # bytes of the float32 that partial results and gradients on the ring have


@dataclass(frozen=True)
class Call:
    """The size of one call of attention that several ranks share.

    Attributes
    ----------
    world_size, seq_len : int
        How many ranks share a sequence of how many tokens.
    schedule, is_causal
        As in `attncourse.parallel.ring.ring_attention`.
    batch, heads, kv_heads, width, value_width : int
        B, H, Hkv, E, Ev.
    itemsize : int
        Bytes of a number: 4 for float32, 2 for bfloat16.
    """

    world_size: int
    seq_len: int
    schedule: str = "zigzag"
    is_causal: bool = True
    batch: int = 1
    heads: int = 1
    kv_heads: int = 1
    width: int = 64
    value_width: int = 64
    itemsize: int = 4

    @property
    def lengths(self) -> np.ndarray:
        """How many tokens each rank holds."""
        return np.array(sharding.lengths(self.seq_len, self.world_size, self.schedule))

    def sources(self) -> np.ndarray:
        """Tell whose keys each rank has in each step of the ring, shape (steps, ranks)."""
        steps, ranks = np.ogrid[: self.world_size, : self.world_size]
        return (ranks - steps) % self.world_size


def pairs(call: Call) -> np.ndarray:
    """Count the pairs of query and key that each rank works on, in each step of the ring.

    Returns
    -------
    ndarray of int, shape (world_size, world_size)
        Steps down, ranks across; one head of one sequence. Under a causal mask the plain order
        gives rank 0 work in one step only, and the last rank in all of them.
    """
    runs = [
        sharding.runs(call.seq_len, rank, call.world_size, call.schedule)
        for rank in range(call.world_size)
    ]
    starts, stops = (
        np.array([[getattr(run, end) for run in own] for own in runs]) for end in _ENDS
    )
    sizes = stops - starts  # (ranks, stretches)
    sources, total = call.sources(), 0
    for own in range(sizes.shape[1]):
        for other in range(sizes.shape[1]):
            keys, key_starts = sizes[sources, other], starts[sources, other]  # (steps, ranks)
            queries, query_starts = sizes[None, :, own], starts[None, :, own]
            block = queries * keys
            if call.is_causal:
                triangle = queries * (queries + 1) // 2
                same = key_starts == query_starts
                block = np.where(
                    same, np.minimum(block, triangle), block * (key_starts < query_starts)
                )
            total = total + block
    return np.asarray(total)


_ENDS = ("start", "stop")


def flops(call: Call, way: str = "forward") -> np.ndarray:
    """Count the floating-point operations of each rank in each step, as `measure.cost` does.

    Returns
    -------
    ndarray, shape (world_size, world_size)
        Two matrix products forwards, five backwards; a multiplication and an addition are two.
    """
    to_width, to_value_width = {"forward": (1, 1), "backward": (3, 2)}[way]
    widths = to_width * call.width + to_value_width * call.value_width
    return 2 * call.batch * call.heads * widths * pairs(call)


def keys_of(call: Call) -> np.ndarray:
    """Count the bytes of each rank's keys and values, in the type in which they travel."""
    numbers = call.batch * call.kv_heads * (call.width + call.value_width)
    return numbers * call.lengths * call.itemsize


def bytes_sent(method: str, call: Call, way: str = "forward") -> int:
    """Predict the bytes that all ranks together put on the wire.

    Parameters
    ----------
    method : {"ring", "ulysses"}
        Which attention.
    call : Call
        The sizes.
    way : {"forward", "backward"}
        Which pass.

    Returns
    -------
    int
        On the ring, every rank's keys and values make world_size - 1 hops; backwards they make
        them again, and their gradients, float32 at least, make as many. In Ulysses every rank
        receives the queries, keys and values of the other ranks' tokens for its own heads, and
        sends their outputs back; backwards the gradients go the same ways.

    Raises
    ------
    ValueError
        When the method or the way is unknown, or Ulysses has too few heads.
    """
    if method not in METHODS or way not in WAYS:
        raise ValueError(f"wanted one of {METHODS} and of {WAYS}, got {method!r} and {way!r}")
    if method == "ring":
        once = (call.world_size - 1) * int(keys_of(call).sum())
        if way == "forward":
            return once
        return once + once * max(call.itemsize, _WIDE) // call.itemsize
    rest = call.seq_len - call.lengths
    shares = [
        sharding.heads_of(call.heads, call.kv_heads, rank, call.world_size)
        for rank in range(call.world_size)
    ]
    heads = np.array([sum(part.stop - part.start for part in share) for share in shares])
    numbers = call.batch * (call.width + call.value_width) * int((rest * heads).sum())
    return numbers * call.itemsize


def bytes_held(method: str, call: Call, way: str = "forward") -> np.ndarray:
    """Predict the bytes of tokens that each rank must hold at once, its inputs included.

    Returns
    -------
    ndarray, shape (world_size,)
        On the ring: own queries, keys, values and output, the keys and values that are visiting
        and those that arrive; backwards also the gradient of the output and of the queries, the
        own keys' gradients, and those that travel. In Ulysses: a part of the tokens with all
        heads, and all tokens with a part of the heads. Both shrink as 1 / world_size.
    """
    tokens = call.lengths
    per_query = call.batch * call.heads * (call.width + call.value_width)
    per_key = call.batch * call.kv_heads * (call.width + call.value_width)
    if method == "ring":
        visitors = 2 if call.world_size > 1 else 0
        numbers = per_query + (1 + visitors) * per_key
        if way == "backward":
            numbers += per_query + (1 + visitors) * per_key
        return tokens * numbers * call.itemsize
    if method != "ulysses":
        raise ValueError(f"wanted one of {METHODS}, got {method!r}")
    numbers = (per_query + per_key) * (2 if call.world_size > 1 else 1)
    return tokens * numbers * call.itemsize * (2 if way == "backward" else 1)
