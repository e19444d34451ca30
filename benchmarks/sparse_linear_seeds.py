"""Train with layouts and with linear memories on several seeds: the bands of chapter 14.

Two comparisons: two layers under a window, with and without a global block, that must name the
symbol at position 4 from the last token; and associative recall by number of pairs, with softmax
and linear memories of two widths. Run ``python benchmarks/sparse_linear_seeds.py``; it takes
about three minutes on one core and writes results/sparse_linear_seeds.json. A run outside its
band fails the script.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
from record import write
from torch import nn

from attncourse import attention, tasks, train
from attncourse.measure.bench import machine
from attncourse.models.mixer import Mixer
from attncourse.models.recall import PairReader
from attncourse.variants import sparse

RESULTS = Path(__file__).parent / "results" / "sparse_linear_seeds.json"
# What the chapter asserts of each run's accuracy: lowest and highest allowed.
BANDS = {
    "window/12": (0.9, 1.0),
    "window/16": (0.9, 1.0),
    "window/24": (0.0, 0.2),
    "global/24": (0.9, 1.0),
    "pairs/softmax/16/4": (0.9, 1.0),
    "pairs/softmax/16/16": (0.9, 1.0),
    "pairs/softmax/16/48": (0.9, 1.0),
    "pairs/linear/32/4": (0.85, 1.0),
    "pairs/linear/32/48": (0.0, 0.6),
    "pairs/linear/16/48": (0.0, 0.3),
}


def name_position_4(batch_size: int, n: int, *, generator: tasks.Randomness) -> tasks.Recall:
    """Make random symbols and ask for the first one of the second block of four."""
    tokens, _ = tasks.first_token_recall(batch_size, n, generator=generator)
    return tasks.Recall(tokens, tokens[:, 4])


def layout_run(n: int, steps: int, parts: dict[str, int], seed: int) -> dict[str, Any]:
    """Train two layers under a layout of blocks of four."""
    mask = torch.from_numpy(sparse.expand(sparse.layout(n // 4, **parts), 4, n))
    train.set_seed(seed)
    sizes: dict[str, Any] = {"d_model": 32, "num_heads": 2, "read": "last"}
    attend = partial(attention, attn_mask=mask)
    model = Mixer(attend, nn.Embedding(10, 32), seq_len=n, num_answers=10, **sizes)
    task = partial(tasks.batches, name_position_4)
    stop: dict[str, Any] = {"stop": 0.99, "measure_every": 20, "progress": False}
    history = train.fit(model, task(64, n), steps=steps, lr=5e-3, seed=seed, **stop)
    accuracy = train.evaluate(model, task(1000, n), seed=seed)
    return {"accuracy": round(accuracy, 4), "steps": len(history.losses)}


def pairs_run(memory: str, width: int, number: int, seed: int) -> dict[str, Any]:
    """Train a memory of one width on lists of so many pairs."""
    train.set_seed(seed)
    model, task = (
        PairReader(memory, d_model=width),
        partial(tasks.batches, tasks.associative_recall),
    )
    train.fit(model, task(64, number), steps=400, lr=1e-2, seed=seed, progress=False)
    return {"accuracy": round(train.evaluate(model, task(2000, number), seed=seed), 4)}


def plan() -> dict[str, Any]:
    """Name every run: a function of the seed."""
    runs: dict[str, Any] = {
        "window/12": partial(layout_run, 12, 400, {}),
        "window/16": partial(layout_run, 16, 400, {}),
        "window/24": partial(layout_run, 24, 150, {}),
        "global/24": partial(layout_run, 24, 400, {"num_global": 1}),
    }
    for memory, width in (("softmax", 16), ("linear", 16), ("linear", 32)):
        for number in (4, 16, 48):
            runs[f"pairs/{memory}/{width}/{number}"] = partial(pairs_run, memory, width, number)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--only", default="", help="repeat the runs whose name starts so")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    results = json.loads(RESULTS.read_text(encoding="utf-8"))["runs"] if chosen.only else {}
    for name, run in plan().items():
        if name.startswith(chosen.only):
            results[name] = [run(seed=seed) | {"seed": seed} for seed in range(chosen.seeds)]
            print(f"{name:22}", [one["accuracy"] for one in results[name]], flush=True)
            write(RESULTS, {"machine": machine(), "runs": results})
    outside = [
        f"{name} {one['accuracy']}"
        for name, (low, high) in BANDS.items()
        for one in results[name]
        if not low <= one["accuracy"] <= high
    ]
    if outside:
        raise SystemExit("outside their bands: " + "; ".join(outside))


if __name__ == "__main__":
    main()
