"""Build, check and time the Triton rungs on a GPU, and write one JSON file.

    python benchmarks/gpu.py --out benchmarks/results/gpu.json
    python benchmarks/gpu.py --dry          # interpreter-sized, on a CPU, no timings to keep

Three parts, in this order, within `--seconds` (340 by default): checks of everything that the
interpreter cannot show (half types in the matrix units, 65,536 and more heads, more than 2**31
numbers, two equal runs), then times beside SDPA's backends and FlexAttention, interleaved, and
last other tiles than the table's. Parts for which no time or no memory is left are named in the
file. The exit code is 1 when a check fails.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from gpu_checks import (
    Budget,
    check_dropout,
    check_features,
    check_many_heads,
    check_many_numbers,
    draw,
)
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import attncourse
from attncourse.kernels import blocks, runtime

PEAK_ROUNDS = 5


def environment(device: str) -> dict[str, Any]:
    """Name the device, its clocks as they are found, and every version."""
    found: dict[str, Any] = {
        "attncourse": attncourse.__version__,
        "torch": torch.__version__,
        "triton": runtime.triton.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": platform.processor() or platform.machine(),
    }
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        found["device"] = properties.name
        found["capability"] = f"{properties.major}.{properties.minor}"
        found["memory_bytes"] = properties.total_memory
        found["multiprocessors"] = properties.multi_processor_count
        found["nvidia_smi"] = clocks()
    return found


def clocks() -> dict[str, str]:
    """Read clocks, power and temperature; nothing is set."""
    names = (
        "driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.draw,power.limit,temperature.gpu"
    )
    try:
        command = ["nvidia-smi", f"--query-gpu={names}", "--format=csv,noheader"]
        said = subprocess.check_output(command, encoding="utf-8", timeout=20).splitlines()[0]
    except (OSError, subprocess.SubprocessError) as error:
        return {"error": str(error)}
    return dict(zip(names.split(","), map(str.strip, said.split(",")), strict=True))


def milliseconds(call: Callable[[], Any], dry: bool) -> float:
    """Return the median time of a call, by device events."""
    if dry:
        started = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - started)
    return float(runtime.triton.testing.do_bench(call, 5, 25, return_mode="median"))


def competitors(causal: bool, seq_len: int, device: str) -> dict[str, Callable[..., Tensor]]:
    """Name the functions that are timed side by side."""

    def on_backend(backend: SDPBackend) -> Callable[..., Tensor]:
        def call(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(query, key, value, is_causal=causal)

        return call

    def ours(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return attncourse.attention(query, key, value, is_causal=causal, rung="triton")

    if device == "cpu":
        return {"triton": ours, "sdpa_math": on_backend(SDPBackend.MATH)}
    return {
        "triton": ours,
        "sdpa_flash": on_backend(SDPBackend.FLASH_ATTENTION),
        "sdpa_cudnn": on_backend(SDPBackend.CUDNN_ATTENTION),
        "sdpa_efficient": on_backend(SDPBackend.EFFICIENT_ATTENTION),
        "flex": flex_attention(causal, seq_len, device),
    }


def flex_attention(causal: bool, seq_len: int, device: str) -> Callable[..., Tensor]:
    """Return FlexAttention, compiled for one mask."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled = torch.compile(flex_attention, dynamic=False)
    mask = None
    if causal:

        def earlier(batch: Any, head: Any, row: Any, col: Any) -> Any:
            return row >= col

        mask = create_block_mask(earlier, None, None, seq_len, seq_len, device=device)
    return lambda query, key, value: compiled(query, key, value, block_mask=mask)


def time_all(device: str, dry: bool, budget: Budget) -> Iterator[dict[str, Any]]:
    """Time forward and backward beside the others, in interleaved rounds."""
    cases = [(128, 16384), (64, 16384), (128, 4096), (128, 1024)] if not dry else [(8, 32)]
    for width, seq_len in cases:
        for causal in (False, True):
            name = f"time d={width} n={seq_len} causal={causal}"
            if not budget.allows(name, 40):
                continue
            heads = max(1, 32768 // seq_len) * 8 if not dry else 1
            shape = (1, heads, seq_len, width)
            tensors = [
                draw(*shape, dtype=torch.float16, device=device, seed=i).requires_grad_()
                for i in range(3)
            ]
            flops = 4 * heads * seq_len**2 * width / (2 if causal else 1)
            times = measure(competitors(causal, seq_len, device), tensors, dry)
            for (label, direction), taken in times.items():
                work = flops * (1 if direction == "forward" else 2.5)
                middle = statistics.median(taken)
                yield {
                    "case": {"width": width, "seq_len": seq_len, "heads": heads, "causal": causal},
                    "what": label,
                    "direction": direction,
                    "milliseconds": middle,
                    "spread": max(taken) - min(taken),
                    "tflops": work / middle / 1e9,
                }


def measure(
    functions: dict[str, Callable[..., Tensor]], tensors: list[Tensor], dry: bool
) -> dict[tuple[str, str], list[float]]:
    """Take turns: one round times every function once, forward and backward."""
    calls: dict[tuple[str, str], Callable[[], Any]] = {}
    for label, function in functions.items():
        try:
            out = function(*tensors)
            dout = torch.randn_like(out)
            torch.autograd.grad(out, tensors, dout, retain_graph=True)
        except Exception as error:  # a backend that this GPU or build does not have
            print(f"  {label}: {str(error).splitlines()[0][:100]}", flush=True)
            continue
        plain = [tensor.detach() for tensor in tensors]
        calls[label, "forward"] = lambda f=function, p=plain: f(*p)
        calls[label, "backward"] = lambda o=out, d=dout: torch.autograd.grad(
            o, tensors, d, retain_graph=True
        )
    times: dict[tuple[str, str], list[float]] = {name: [] for name in calls}
    for _ in range(1 if dry else PEAK_ROUNDS):
        for name, call in calls.items():
            times[name].append(milliseconds(call, dry))
    return times


def time_tiles(device: str, dry: bool, budget: Budget) -> Iterator[dict[str, Any]]:
    """Time other tiles than the table's for the forward kernel."""
    choices = [(128, 128, 8, 2), (128, 64, 8, 3), (128, 64, 4, 3), (64, 64, 4, 3), (128, 128, 8, 3)]
    for width in (64, 128) if not dry else (8,):
        shape = (1, 16, 16384, width) if not dry else (1, 1, 32, width)
        query = draw(*shape, dtype=torch.float16, device=device)
        flops = 2 * shape[1] * shape[2] ** 2 * width
        for tile in choices if not dry else [(16, 16, 4, 1)]:
            if not budget.allows(f"tile {tile} d={width}", 15):
                continue
            with blocks.use(*tile):
                try:
                    taken = milliseconds(
                        lambda x=query: attncourse.attention(
                            x, x, x, is_causal=True, rung="triton"
                        ),
                        dry,
                    )
                except Exception as error:  # too large for this chip
                    yield {"width": width, "tile": tile, "error": str(error)[:100]}
                    continue
            yield {"width": width, "tile": tile, "tflops": flops / taken / 1e9}


def main() -> int:
    """Run the three parts, print as they go, write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where to write the JSON file")
    parser.add_argument("--seconds", type=float, default=340.0, help="time for everything")
    parser.add_argument("--dry", action="store_true", help="tiny sizes, to try the script itself")
    arguments = parser.parse_args()
    if runtime.INTERPRETED and not arguments.dry:
        parser.error("no CUDA device is visible; --dry runs tiny sizes in the interpreter")
    device, dry = "cpu" if runtime.INTERPRETED else "cuda", arguments.dry
    budget = Budget(arguments.seconds)
    report: dict[str, Any] = {"dry": dry, "environment": environment(device), "checks": []}

    for run in (check_dropout, lambda d: check_many_heads(d, dry)):
        report["checks"].append(run(device))
    report["checks"].extend(check_features(device, dry, budget))
    if budget.allows("check many numbers", 140):
        report["checks"].append(check_many_numbers(device, dry))
    failed = [check for check in report["checks"] if not check["ok"]]
    print(f"{len(report['checks'])} checks, {len(failed)} failed", flush=True)
    for check in failed:
        print("  FAILED", json.dumps(check), flush=True)
    for part, rows in (("times", time_all), ("tiles", time_tiles)):
        report[part] = []
        for row in rows(device, dry, budget):
            print(json.dumps(row), flush=True)
            report[part].append(row)
    if device == "cuda":
        report["environment"]["nvidia_smi_after"] = clocks()
    report["left_out"] = budget.left_out
    report["seconds"] = round(time.perf_counter() - budget.start, 1)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"{report['seconds']} s; left out: {budget.left_out or 'nothing'}")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
