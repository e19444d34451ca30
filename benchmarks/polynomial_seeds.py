"""Train softmax and powers side by side on several seeds: the bands that chapter 15 asserts.

Three comparisons: digits as 16 tokens, with normalisation; the same without it, where the size of
the weights shows; and recall of the first of 64 symbols, a look-up. Run
``python benchmarks/polynomial_seeds.py``; it takes about three minutes on one core and writes
results/polynomial_seeds.json. A run outside its band fails the script.
"""

from __future__ import annotations

import argparse
import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import torch
from record import write
from torch import nn

from attncourse import attention, tasks, train
from attncourse.measure.bench import machine
from attncourse.models.mixer import Mixer, Patches
from attncourse.tasks.pictures import digits
from attncourse.variants import polynomial

RESULTS = Path(__file__).parent / "results" / "polynomial_seeds.json"
POWERS = {
    "softmax": attention,
    "linear": partial(polynomial.attention, power=1),
    "square": partial(polynomial.attention, power=2),
    "cubic": polynomial.attention,
    "cubic, no coefficient": partial(polynomial.attention, coefficient=1.0),
}
# What the chapter asserts: (name, what is measured) -> lowest and highest allowed.
BANDS = {
    ("digits/softmax", "accuracy"): (0.8, 1.0),
    ("digits/linear", "accuracy"): (0.8, 1.0),
    ("digits/square", "accuracy"): (0.8, 1.0),
    ("digits/cubic", "accuracy"): (0.8, 1.0),
    ("digits/cubic, no coefficient", "largest loss"): (0.0, 6.0),
    ("bare/softmax", "largest gradient"): (0.0, 12.0),
    ("bare/cubic, no coefficient", "largest gradient"): (20.0, math.inf),
    ("recall/softmax", "accuracy"): (0.8, 1.0),
    ("recall/square", "accuracy"): (0.8, 1.0),
}


def digit_run(attend: Any, seed: int, normalise: bool, steps: int) -> dict[str, float]:
    """Train on digits cut into 16 squares of 2 x 2 pixels."""
    data = digits()
    train.set_seed(seed)
    sizes: dict[str, Any] = {"seq_len": 16, "num_answers": 10, "normalise": normalise}
    model = Mixer(attend, Patches(2, 48), **sizes)
    fit = partial(train.fit, steps=steps, lr=3e-3, seed=seed, progress=False, device="cpu")
    history = fit(model, partial(data.batch, 32))
    with torch.no_grad():
        accuracy = train.accuracy(model(data.held_out_pictures), data.held_out_target)
    return summary(accuracy, history)


def recall_run(attend: Any, seed: int) -> dict[str, float]:
    """Train on recall of the first of 64 symbols, with one block."""
    train.set_seed(seed)
    sizes: dict[str, Any] = {"d_model": 32, "num_heads": 2, "depth": 1, "read": "last"}
    model = Mixer(attend, nn.Embedding(10, 32), seq_len=64, num_answers=10, **sizes)
    fit = partial(train.fit, steps=300, lr=3e-3, seed=seed, progress=False, device="cpu")
    history = fit(model, tasks.batches(tasks.first_token_recall, 32, 64))
    exam = tasks.batches(tasks.first_token_recall, 1000, 64)
    return summary(train.evaluate(model, exam, seed=seed), history)


def summary(accuracy: float, history: train.History) -> dict[str, float]:
    found = {
        "accuracy": accuracy,
        "last loss": sum(history.losses[-20:]) / 20,
        "largest loss": max(history.losses),
        "largest gradient": max(history.grad_norms),
    }
    return {name: float(f"{number:.4g}") for name, number in found.items()}


def plan() -> dict[str, Any]:
    """Name every run: a function of the seed."""
    runs: dict[str, Any] = {}
    for name, attend in POWERS.items():
        runs[f"digits/{name}"] = partial(digit_run, attend, normalise=True, steps=200)
        runs[f"bare/{name}"] = partial(digit_run, attend, normalise=False, steps=60)
        runs[f"recall/{name}"] = partial(recall_run, attend)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--only", default="", help="repeat the runs whose name starts so")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    results = json.loads(RESULTS.read_text(encoding="utf-8"))["runs"] if chosen.only else {}
    for name, run in plan().items():
        if not name.startswith(chosen.only):
            continue
        results[name] = [run(seed=seed) | {"seed": seed} for seed in range(chosen.seeds)]
        spans = {
            what: f"{min(found):.3g} to {max(found):.3g}"
            for what in results[name][0]
            if (found := [one[what] for one in results[name]])
        }
        print(f"{name:28}", spans, flush=True)
        write(RESULTS, {"machine": machine(), "runs": results})
    outside = [
        f"{name}: {what} {one[what]}"
        for (name, what), (low, high) in BANDS.items()
        for one in results[name]
        if not low <= one[what] <= high
    ]
    if outside:
        raise SystemExit("outside their bands: " + "; ".join(outside))


if __name__ == "__main__":
    main()
