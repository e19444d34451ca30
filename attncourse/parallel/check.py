"""Hold attention on several processes to the same attention in one.

New here: every rank also computes the whole by itself, in float64 and with the plainest rung, and
compares its own part: output and gradients. What was sent is counted and put beside the formula.
Smaller groups are formed out of the same processes, so one start checks several world sizes.

Left out: speed; two cores do not get faster by sharing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from attncourse.measure.peak_memory import highest_during
from attncourse.parallel import groups, launch, sharding, wire
from attncourse.parallel.budget import WAYS, Call, bytes_sent
from attncourse.rungs import attention

__all__ = ["LIMIT", "Result", "compare", "inputs", "main", "memory"]

LIMIT = 1e-5  # the largest error that `main` lets pass
_SIZES = Call(1, 203, batch=2, heads=6, kv_heads=3, width=16, value_width=12)
_WIDE = Call(1, 768, heads=4, kv_heads=4, width=1024, value_width=1024)


@dataclass(frozen=True)
class Result:
    """What one comparison found, over all ranks.

    Attributes
    ----------
    call : Call
        What was compared.
    errors : dict of str to float
        Largest absolute error of out, dq, dk and dv on any rank.
    sent, predicted : dict of str to int
        Bytes that all ranks sent together, forward and backward; and the formula's.
    memory : int or None
        With ``--memory``: bytes that the fullest rank needed beside its inputs, both ways, for
        tokens so wide that they outweigh everything else.
    """

    call: Call
    errors: dict[str, float]
    sent: dict[str, int]
    predicted: dict[str, int]
    memory: int | None = None

    def line(self) -> str:
        """Sum up in one line."""
        call = self.call
        words = [f"{call.world_size} x", call.schedule, "causal" if call.is_causal else "full"]
        errors = [f"{name} {error:.1e}" for name, error in self.errors.items()]
        sent = [f"{way} {self.sent[way]:,} of {self.predicted[way]:,}" for way in WAYS]
        return f"{' '.join(words):19}{'  '.join(errors)}  bytes: {', '.join(sent)}"

    def fault(self) -> str:
        """Say what is wrong with it, if anything is."""
        if not max(self.errors.values()) <= LIMIT:
            return f"an error above {LIMIT:g}"
        return "" if self.sent == self.predicted else "other bytes than the formula says"


def inputs(call: Call, device: torch.device, seed: int = 0) -> list[Tensor]:
    """Return query, key, value and the gradient of the output, whole, the same on every rank."""
    generator = torch.Generator().manual_seed(seed)
    heads = (call.heads, call.kv_heads, call.kv_heads, call.heads)
    widths = (call.width, call.width, call.value_width, call.value_width)
    shapes = [(call.batch, h, call.seq_len, width) for h, width in zip(heads, widths, strict=True)]
    return [torch.randn(shape, generator=generator).to(device) for shape in shapes]


def compare(method: str, function: Callable[..., Tensor], call: Call, group: Any = None) -> Result:
    """Compare a distributed attention with the whole in float64, forwards and backwards.

    Parameters
    ----------
    method : {"ring", "ulysses"}
        Whose formula predicts the bytes.
    function : callable
        `ring_attention` or `ulysses_attention`.
    call : Call
        Sizes and settings; `world_size` is that of the group.
    group : ProcessGroup, optional
        Who takes part; only they may call.

    Returns
    -------
    Result
        The same on every rank of the group.
    """
    rank = dist.get_rank(group)
    whole = inputs(call, groups.device_of(group))
    *leaves, grad_out = (sharding.shard(x, rank, call.world_size, call.schedule) for x in whole)
    leaves = [x.requires_grad_() for x in leaves]
    with wire.recorded() as forward:
        out = function(*leaves, is_causal=call.is_causal, schedule=call.schedule, group=group)
    with wire.recorded() as backward:
        found = [out.detach(), *torch.autograd.grad(out, leaves, grad_out)]
    worst = torch.zeros(4, dtype=torch.float64, device=out.device)
    for place, (ours, whole_result) in enumerate(zip(found, _in_one(call, whole), strict=True)):
        theirs = sharding.shard(whole_result, rank, call.world_size, call.schedule)
        worst[place] = (ours - theirs).abs().max() if ours.numel() else 0.0
    sent = torch.tensor([sum(m.nbytes for m in log) for log in (forward, backward)])
    sent = sent.to(out.device)
    dist.all_reduce(worst, dist.ReduceOp.MAX, group)
    dist.all_reduce(sent, dist.ReduceOp.SUM, group)
    return Result(
        call,
        dict(zip(("out", "dq", "dk", "dv"), worst.tolist(), strict=True)),
        dict(zip(WAYS, sent.tolist(), strict=True)),
        {way: bytes_sent(method, call, way) for way in WAYS},
    )


def memory(function: Callable[..., Tensor], call: Call, group: Any = None) -> int:
    """Measure what the fullest rank needs beside its inputs, forwards and backwards.

    Parameters
    ----------
    function, call, group
        As in `compare`.

    Returns
    -------
    int
        Bytes by the operating system's mark of the highest use; the same on every rank.
    """
    rank, device = dist.get_rank(group), groups.device_of(group)

    def work(tokens: int) -> Callable[[], None]:
        whole = inputs(replace(call, seq_len=tokens), device)
        *leaves, grad = (sharding.shard(x, rank, call.world_size, call.schedule) for x in whole)
        leaves = [x.requires_grad_() for x in leaves]

        def both_ways() -> None:
            out = function(*leaves, is_causal=call.is_causal, schedule=call.schedule, group=group)
            torch.autograd.grad(out, leaves, grad)

        return both_ways

    work(2 * call.world_size)()  # what is made once, such as buffers of libraries, does not count
    most = torch.tensor(highest_during(work(call.seq_len)), device=device)
    dist.all_reduce(most, dist.ReduceOp.MAX, group)
    return int(most)


def _in_one(call: Call, whole: list[Tensor]) -> list[Tensor]:
    """Compute the whole output and the whole gradients in one process, in float64."""
    *leaves, grad_out = (x.double() for x in whole)
    leaves = [x.requires_grad_() for x in leaves]
    query, key, value = leaves
    options: Any = {"is_causal": call.is_causal, "enable_gqa": True, "rung": "batched"}
    out = attention(query, key, value, **options)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad_out)]


def main(method: str, function: Callable[..., Tensor], arguments: list[str] | None = None) -> int:
    """Run the comparisons of a script; see ``--help``."""
    options = _parser(method).parse_args(arguments)
    return launch.run(
        lambda process: _run(method, function, options, process),
        timeout=options.timeout,
        backend=options.backend,
    )


def _parser(method: str) -> argparse.ArgumentParser:
    text = f"Hold {method} attention on several processes to attention in one. Start with torchrun."
    parser = argparse.ArgumentParser(prog=f"attncourse.parallel.{method}", description=text)
    add = parser.add_argument
    add("--check", action="store_true", help="run the comparisons (what is done anyway)")
    add("--seq-len", type=int, default=_SIZES.seq_len, help="tokens of the sequence")
    add("--heads", type=int, nargs=2, default=(6, 3), metavar=("H", "HKV"), help="heads")
    add("--world-sizes", type=int, nargs="+", help="sizes of the groups; all processes by default")
    add("--memory", action="store_true", help="measure the memory of zig-zag, causal, too")
    add("--json", type=Path, help="write the results of rank 0 to this file")
    add("--backend", choices=("auto", "gloo", "nccl"), default="auto")
    add("--timeout", type=float, default=launch.TIMEOUT, help="seconds to wait for another rank")
    return parser


def _run(
    method: str,
    function: Callable[..., Tensor],
    options: argparse.Namespace,
    process: launch.Process,
) -> None:
    """Compare both orders, with and without a causal mask, at every world size."""
    results = []
    heads, kv_heads = options.heads
    sizes = replace(_SIZES, seq_len=options.seq_len, heads=heads, kv_heads=kv_heads)
    launch.say(
        process, f"{method} attention, {sizes.seq_len} tokens; ranks, order, mask, largest errors:"
    )
    for world_size in options.world_sizes or [process.world_size]:
        group = dist.new_group(list(range(world_size)))
        if process.rank >= world_size:
            continue
        for schedule, is_causal in product(sharding.SCHEDULES, (False, True)):
            call = replace(sizes, world_size=world_size, schedule=schedule, is_causal=is_causal)
            results.append(compare(method, function, call, group))
            launch.say(process, results[-1].line())
        if options.memory:
            most = memory(function, replace(_WIDE, world_size=world_size), group)
            results[-1] = replace(results[-1], memory=most)
            launch.say(
                process, f"{world_size} x {most / 2**20:.0f} MiB of memory beside the inputs"
            )
    if options.json and process.rank == 0:
        text = json.dumps([asdict(result) for result in results])
        options.json.write_text(text, encoding="utf-8")
    faults = [f"{result.fault()} at {result.line()}" for result in results if result.fault()]
    if faults:
        raise ValueError("; ".join(faults))
