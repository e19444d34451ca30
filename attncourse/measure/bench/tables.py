"""The comparisons that `attncourse bench` makes, one function a table.

Every row is one interleaved run; every ratio is "times faster than PyTorch's function in
the same round", below 1 where PyTorch wins. A missing figure says why in its column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attncourse import masks, rungs
from attncourse.decode import decode as decode_step
from attncourse.measure.bench import interleaved, ratios
from attncourse.measure.peak_memory import peak_memory
from attncourse.rungs import by_hand

__all__ = ["TITLES", "decode", "ladder", "memory", "tiles", "window"]

TITLES = {
    "ladder": "Every rung, 8 heads of 64: ms of sdpa, then times faster than sdpa (loops, and "
    "Triton in its interpreter, at n = 64 only)",
    "tiles": "Causal, 8 heads of 64: times faster than five plain lines that build the matrix",
    "memory": "Peak memory beyond the inputs in MB, 8 heads of 64, causal; each in its own process",
    "window": "A causal window of W keys: times faster than sdpa with the same mask",
    "decode": "One query against a cache of n: times faster than sdpa with enable_gqa",
}
NUM_HEADS, HEAD_DIM = 8, 64
TIMED = tuple(rung.name for rung in rungs.LADDER if rung.timed)
# Scores of the whole matrix, in bytes, beyond which a rung that stores it is not run; NumPy
# rungs stop earlier because they take seconds.
TOO_LARGE = {"numpy": 2**27, "torch": 2**30}


def ladder(*, lengths: Sequence[int] = (64, 512, 1024, 2048), seconds: float = 2.0) -> list[dict]:
    """Compare every rung with PyTorch, forward and forward + backward, causal and not."""
    rows = []
    for seq_len in lengths:
        for is_causal in (False, True):
            for backward in (False, True):
                calls = _calls(seq_len, is_causal, backward)
                times = interleaved(calls, seconds=seconds)
                row: dict[str, Any] = {"n": seq_len, "causal": "yes" if is_causal else "no"}
                row["pass"] = "both" if backward else "forward"
                row["sdpa ms"] = 1e3 * min(times["sdpa"])
                faster = ratios(times, "sdpa")
                rows.append(row | {name: faster.get(name) for name in ("plain", *TIMED)})
    return rows


def _calls(seq_len: int, is_causal: bool, backward: bool) -> dict[str, Callable[[], Any]]:
    """Return what can be compared at this size: SDPA, five plain lines, and the rungs."""
    shape = (1, NUM_HEADS, seq_len, HEAD_DIM)
    q, k, v = (torch.randn(shape, requires_grad=backward) for _ in range(3))
    grad = torch.randn(shape)
    scores_bytes = 4 * NUM_HEADS * seq_len**2

    def both(call: Callable[[], Tensor]) -> Callable[[], Any]:
        return (lambda: torch.autograd.grad(call(), (q, k, v), grad)) if backward else call

    calls: dict[str, Callable[[], Any]] = {"sdpa": both(lambda: sdpa(q, k, v, is_causal=is_causal))}
    if scores_bytes <= TOO_LARGE["torch"]:
        calls["plain"] = both(lambda: plain(q, k, v, is_causal))
    for name in TIMED:
        rung = rungs.by_name(name)
        if seq_len > (rung.longest or seq_len) or (rung.package and not find_spec(rung.package)):
            continue
        # Autograd keeps every strip and tile: with gradients these rungs store the matrix too.
        stores = rung.cost == "materialised" or (backward and not rung.recomputes)
        if stores and scores_bytes > TOO_LARGE[rung.library]:
            continue
        if rung.library == "torch" and not (backward and "grad" not in rung.features):
            calls[name] = both(partial(rung.function, q, k, v, is_causal=is_causal))
        elif name == "by_hand" and backward:
            calls[name] = _by_hand(q, k, v, grad, is_causal)
        elif rung.library == "numpy" and not backward:
            call: Any = rung.function if "batch" in rung.features else _head_by_head
            calls[name] = partial(call, *(x.numpy() for x in (q, k, v)), is_causal=is_causal)
    return calls


def _head_by_head(query: Any, key: Any, value: Any, is_causal: bool) -> np.ndarray:
    """Run rung `loops`, which knows no heads, on each of them."""
    attend = rungs.by_name("loops").function
    heads = zip(query[0], key[0], value[0], strict=True)
    return np.stack([attend(*head, is_causal=is_causal) for head in heads])[None]


def _by_hand(q: Tensor, k: Tensor, v: Tensor, grad: Tensor, is_causal: bool) -> Callable[[], Any]:
    query, key, value = (x.detach().numpy() for x in (q, k, v))

    def call() -> Any:
        *_, kept = by_hand.attention_forward(query, key, value, is_causal=is_causal)
        return by_hand.attention_backward(grad.numpy(), kept)

    return call


def plain(q: Tensor, k: Tensor, v: Tensor, is_causal: bool) -> Tensor:
    """Attend as five lines of torch do, with the whole matrix of scores."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5  # (B, H, L, S)
    if is_causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)  # (L, S)
        scores = scores.masked_fill(future, -torch.inf)
    return scores.softmax(-1) @ v  # (B, H, L, Ev)


@torch.no_grad()
def tiles(*, lengths: Sequence[int] = (512, 1024, 2048, 4096), seconds: float = 2.0) -> list[dict]:
    """Compare the rungs that build no (L, S) matrix with the lines that do.

    Fewer functions take turns here than in `ladder`: each finds the caches less spoilt.
    """
    rows = []
    for seq_len in lengths:
        q, k, v = (torch.randn(1, NUM_HEADS, seq_len, HEAD_DIM) for _ in range(3))
        calls: dict[str, Callable[[], Any]] = {"plain": partial(plain, q, k, v, True)}
        for name in ("strips", "tiled", "recompute", "sdpa"):
            calls[name] = partial(rungs.by_name(name).function, q, k, v, is_causal=True)
        times = interleaved(calls, seconds=seconds)
        faster = ratios(times, "plain")
        row: dict[str, Any] = {"n": seq_len, "plain ms": 1e3 * min(times["plain"])}
        rows.append(row | {name: faster[name] for name in calls if name != "plain"})
    return rows


def memory(*, lengths: Sequence[int] = (1024, 4096), seconds: float = 2.0) -> list[dict]:
    """Measure every rung's peak memory; `seconds` is not used."""
    rows = []
    for seq_len in lengths:
        for backward in (False, True):
            row: dict[str, Any] = {"n": seq_len, "pass": "both" if backward else "forward"}
            for name in ("matmul", "batched", "strips", "tiled", "recompute", "sdpa"):
                if backward and rungs.by_name(name).library == "numpy":
                    continue
                if name in ("matmul", "batched") and 4 * NUM_HEADS * seq_len**2 > 2**30:
                    continue
                row[name] = round(peak_memory(name, seq_len, backward=backward) / 1e6)
            rows.append(row)
    return rows


@torch.no_grad()
def window(*, lengths: Sequence[int] = (1024, 2048, 4096), seconds: float = 2.0) -> list[dict]:
    """Compare a window on rung `strips` with PyTorch given the same mask, and without."""
    rows = []
    for seq_len in lengths:
        for size in (128, 256, 512):
            q, k, v = (torch.randn(1, NUM_HEADS, seq_len, HEAD_DIM) for _ in range(3))
            mask = torch.from_numpy(masks.window(seq_len, size=size))
            limits: dict[str, Any] = {"is_causal": True, "window_size": size}
            calls: dict[str, Callable[[], Any]] = {
                "sdpa + mask": partial(sdpa, q, k, v, mask),
                "sdpa causal": partial(sdpa, q, k, v, is_causal=True),
            }
            for name in ("strips", "tiled"):
                calls[name] = partial(rungs.by_name(name).function, q, k, v, **limits)
            times = interleaved(calls, seconds=seconds)
            faster = ratios(times, "sdpa + mask")
            row: dict[str, Any] = {"n": seq_len, "W": size, "strips ms": 1e3 * min(times["strips"])}
            rows.append(row | {name: faster[name] for name in ("sdpa causal", "strips", "tiled")})
    return rows


@torch.no_grad()
def decode(
    *, lengths: Sequence[int] = (512, 2048, 8192, 32768), seconds: float = 2.0
) -> list[dict]:
    """Compare one decoding step with PyTorch's grouped heads, and with its heads folded."""
    rows = []
    for seq_len in lengths:
        for num_heads, num_kv_heads in ((32, 4), (9, 3)):
            q = torch.randn(1, num_heads, 1, HEAD_DIM)
            k, v = (torch.randn(1, num_kv_heads, seq_len, HEAD_DIM) for _ in range(2))
            folded = q.view(1, num_kv_heads, -1, HEAD_DIM)
            calls: dict[str, Callable[[], Any]] = {
                "sdpa": partial(sdpa, q, k, v, enable_gqa=True),
                "sdpa, folded by hand": partial(sdpa, folded, k, v),
                "decode": partial(decode_step, q, k, v),
            }
            times = interleaved(calls, seconds=seconds, rounds=100)
            row: dict[str, Any] = {"n": seq_len, "heads": f"{num_heads}/{num_kv_heads}"}
            row["sdpa ms"] = 1e3 * min(times["sdpa"])
            faster = ratios(times, "sdpa")
            rows.append(row | {name: faster[name] for name in calls if name != "sdpa"})
    return rows
