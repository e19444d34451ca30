"""Chunked linear attention against PyTorch's causal SDPA, in turns: about two minutes.

Both compute 8 heads of 64 in float32 on one thread. They do not compute the same function: this
compares prices, not results. Rows with "both" add the backward pass. Run
``python benchmarks/cpu_linear.py``; it writes results/cpu_linear.json beside itself.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attncourse.measure.bench import interleaved, machine, ratios, save, table
from attncourse.variants import linear

LENGTHS, NUM_HEADS, HEAD_DIM = (128, 512, 2048, 8192), 8, 64
FORMS = {"parallel": 2048, "chunked": 8192, "recurrent": 2048}  # and the longest n they are run at


def one_row(seq_len: int, backward: bool) -> dict[str, Any]:
    """Time every form that is affordable at this length, and SDPA, in one interleaved run."""
    shape = (1, NUM_HEADS, seq_len, HEAD_DIM)
    q, k, v = (torch.randn(shape, requires_grad=backward) for _ in range(3))
    grad = torch.randn(shape)

    def both(call: Callable[[], torch.Tensor]) -> Callable[[], Any]:
        return (lambda: torch.autograd.grad(call(), (q, k, v), grad)) if backward else call

    calls = {"sdpa": both(partial(sdpa, q, k, v, is_causal=True))}
    for form, longest in FORMS.items():
        if seq_len <= longest:
            calls[form] = both(partial(linear.attention, q, k, v, is_causal=True, form=form))
    times = interleaved(calls, seconds=8.0)
    row: dict[str, Any] = {"n": seq_len, "pass": "both" if backward else "forward"}
    row["sdpa ms"] = 1e3 * min(times["sdpa"])
    faster = ratios(times, "sdpa")
    return row | {form: faster.get(form) for form in FORMS}


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = [one_row(seq_len, backward) for seq_len in LENGTHS for backward in (False, True)]
    print("  ".join(f"{key} {value}" for key, value in machine().items()))
    print(f"Linear attention: times faster than causal sdpa\n{table(rows)}")
    save(Path(__file__).parent / "results" / "cpu_linear.json", "linear", rows)


if __name__ == "__main__":
    main()
