"""What each of the processes does that `test_parallel_processes.py` starts with torchrun.

Everything that needs several processes happens in one start, in groups of 1 to 4 of them; rank 0
writes what was found to a JSON file, and the tests look at it.
"""

import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import torch
import torch.distributed as dist

from attncourse.parallel import check, groups, launch, sharding, sockets, wire
from attncourse.parallel.budget import Call
from attncourse.parallel.ring import ring_attention
from attncourse.parallel.ulysses import ulysses_attention
from attncourse.rungs import attention

FUNCTIONS = {"ring": ring_attention, "ulysses": ulysses_attention}
SIZES = {
    "ragged": Call(1, 67, batch=2, heads=6, kv_heads=3, width=8, value_width=5),
    "even": Call(1, 64, batch=1, heads=4, kv_heads=4, width=8, value_width=8),
    "one key head": Call(1, 33, batch=1, heads=5, kv_heads=1, width=4, value_width=12),
    "fewer tokens than pieces": Call(1, 5, batch=1, heads=4, kv_heads=2, width=4, value_width=4),
}


def comparisons(group, world_size):
    """Compare both methods with one process: all orders, lengths and masks."""
    found = []
    for name, sizes in SIZES.items():
        for method, function in FUNCTIONS.items():
            for schedule in sharding.SCHEDULES:
                for is_causal in (False, True):
                    changes = {"schedule": schedule, "is_causal": is_causal}
                    call = replace(sizes, world_size=world_size, **changes)
                    result = check.compare(method, function, call, group)
                    found.append({"method": method, "sizes": name, **asdict(result)})
    return found


def low_precision(group, world_size):
    """Return the errors of bfloat16 on the ring and of plain PyTorch, against float64."""
    call = Call(world_size, 96, heads=4, kv_heads=2, width=16, value_width=16)
    whole = [x.bfloat16() for x in check.inputs(call, torch.device("cpu"))[:3]]
    rank = dist.get_rank(group)
    own = [sharding.shard(x, rank, world_size) for x in whole]
    ours = ring_attention(*own, is_causal=True, group=group)
    assert ours.dtype == torch.bfloat16
    exact = attention(*(x.double() for x in whole), is_causal=True, enable_gqa=True)
    plain = torch.nn.functional.scaled_dot_product_attention(
        *whole, is_causal=True, enable_gqa=True
    )
    part = sharding.shard(exact, rank, world_size)
    errors = torch.stack([(ours - part).abs().max(), (plain - exact).abs().max()])
    dist.all_reduce(errors, dist.ReduceOp.MAX, group)
    return errors.tolist()


def messages(group, world_size):
    """Return what every rank sent in a forward pass, in its order; with a slow rank among them."""
    call = Call(world_size, 67, heads=2, kv_heads=1, width=8, value_width=8)
    rank = dist.get_rank(group)
    own = [sharding.shard(x, rank, world_size) for x in check.inputs(call, torch.device("cpu"))]
    before = sockets.bytes_sent()
    if rank == 1:
        time.sleep(1.0)
    with wire.recorded() as log:
        out = ring_attention(*own[:3], is_causal=True, group=group, seq_len=call.seq_len)
    dist.barrier(group)
    after = sockets.bytes_sent()
    expected = attention(
        *check.inputs(call, torch.device("cpu"))[:3], is_causal=True, enable_gqa=True
    )
    error = (out - sharding.shard(expected, rank, world_size)).abs().max().item()
    kernel = None if before is None else after - before
    mine = {"error": error, "kernel": kernel, "log": [list(message) for message in log]}
    everyone = [None] * world_size
    dist.all_gather_object(everyone, mine, group=group)
    return everyone


def peers(group, world_size):
    """Compare with PyTorch's own ring attention, forwards and backwards, on its CPU kernel."""
    import torch.distributed.tensor.experimental._context_parallel._attention as theirs

    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward

    def attend(q, k, v, is_causal):
        return kernel(q, k, v, 0.0, is_causal)

    def go_back(query, key, value, out, logsumexp, is_causal, grad_out):
        tensors = (grad_out, query, key, value, out, logsumexp)
        return backward(*tensors, 0.0, is_causal)

    call = Call(world_size, 64, batch=2, heads=3, kv_heads=3, width=16, value_width=16)
    whole = check.inputs(call, torch.device("cpu"))
    found = {}
    for is_causal, schedule in ((False, "plain"), (True, "plain"), (True, "zigzag")):
        theirs._cp_options.enable_load_balance = schedule == "zigzag"
        *own, grad = (sharding.shard(x, dist.get_rank(group), world_size, schedule) for x in whole)
        out, lse = theirs._templated_ring_attention(group, 2, attend, *own, is_causal)[:2]
        grads = theirs._templated_ring_attention_backward(
            group, 2, go_back, grad, "grad_out", *own, out, lse, is_causal
        )[:3]
        leaves = [x.requires_grad_() for x in own]
        limits = {"is_causal": is_causal, "schedule": schedule, "group": group}
        ours = ring_attention(*leaves, **limits)
        results = zip([ours, *torch.autograd.grad(ours, leaves, grad)], [out, *grads], strict=True)
        apart = torch.stack([(a - b).detach().abs().max() for a, b in results]).max()
        dist.all_reduce(apart, dist.ReduceOp.MAX, group)
        found[f"{schedule}, causal {is_causal}"] = apart.item()
    return found


def refusals(group, world_size):
    """Bring something else on one rank, and return what each rank is told."""
    rank = dist.get_rank(group)
    part = torch.zeros(1, 2, 4, 8)
    odd = {
        "width": lambda: (torch.zeros(1, 2, 4, 6),) * 3,
        "dtype": lambda: (part.double(),) * 3,
        "no tensor": lambda: (part.numpy(),) * 3,
        "one head too many": lambda: (part, torch.zeros(1, 3, 4, 8), torch.zeros(1, 3, 4, 8)),
        "lengths": lambda: (torch.zeros(1, 2, 9, 8),) * 3,
        "schedule": lambda: (part,) * 3,
        "scale": lambda: (part,) * 3,
        "negative scale": lambda: (part,) * 3,
        "rung": lambda: (part,) * 3,
        "gradients": lambda: (part.clone().requires_grad_(), part, part),
    }
    found = {}
    for name, make in odd.items():
        own = make() if rank == 1 else (part,) * 3
        odd_options = {
            "schedule": {"schedule": "plain"},
            "scale": {"scale": 0.5},
            "negative scale": {"scale": -1.0},
            "rung": {"rung": "elevator"},
        }
        options = odd_options.get(name, {}) if rank == 1 else {}
        try:
            ring_attention(*own, group=group, **options)
            told = "nothing"
        except (ValueError, TypeError, RuntimeError) as error:
            told = f"{type(error).__name__}: {error}"
        everyone = [None] * world_size
        dist.all_gather_object(everyone, told, group=group)
        found[name] = everyone
    return found


def everything(process):
    """Do all that several healthy processes are needed for."""
    found = {"comparisons": []}
    for world_size in (1, 2, 3, 4):
        group = dist.new_group(list(range(world_size)))
        if process.rank >= world_size:
            continue
        found["comparisons"] += comparisons(group, world_size)
        if world_size in (2, 4):
            found[f"low precision {world_size}"] = low_precision(group, world_size)
            found[f"messages {world_size}"] = messages(group, world_size)
            found[f"peers {world_size}"] = peers(group, world_size)
        if world_size == 3:
            found["refusals"] = refusals(group, world_size)
    if process.rank == 0:
        Path(sys.argv[2]).write_text(json.dumps(found))


def fail(process):
    """Fail on one rank while the others wait for its keys."""
    groups.gather_facts([process.rank])
    if process.rank == 1:
        raise ValueError("the tokens of rank 1 are spoilt")
    part = torch.zeros(1, 1, 2, 4)
    ring_attention(part, part, part)


def hang(process):
    """Get stuck on one rank while the others wait for its keys."""
    groups.gather_facts([process.rank])
    if process.rank == 1:
        time.sleep(60)
    part = torch.zeros(1, 1, 2, 4)
    ring_attention(part, part, part)


if __name__ == "__main__":
    work, timeout = {"everything": (everything, 120), "fail": (fail, 60), "hang": (hang, 3)}[
        sys.argv[1]
    ]
    sys.exit(launch.run(work, timeout=timeout, backend="gloo"))
