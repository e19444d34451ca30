"""Train the package's readers of chapter 01's tasks over several seeds, patient ones included.

The chapter writes smaller readers of its own and trains them for 300 steps; what more steps and
gated cells change is measured here. A run outside its band fails this script.
Run it with ``python benchmarks/recall_seeds.py``; it takes about four minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
from record import write

import attncourse
from attncourse import tasks, train
from attncourse.models.recall import AttentionReader, PairReader, RecurrentReader
from attncourse.models.sentiment import CHANNELS, BiLSTMWithAttention

RESULTS = Path(__file__).parent / "results" / "recall_seeds.json"


# Where the results of these readers lie.
BANDS = {
    "first/attention/": (0.95, 1.0),
    "first/elman/2": (0.95, 1.0),
    "first/elman/5": (0.95, 1.0),
    "first/elman/20": (0.0, 0.2),
    "first/elman/50": (0.0, 0.2),
    "first/attention-no-positions/": (0.0, 0.25),
    "pairs/softmax/48/300": (0.97, 1.0),
    "pairs/linear/16/1500": (0.93, 1.0),
    "pairs/linear/48/300": (0.0, 0.5),
    "pairs/linear/48/1500": (0.6, 0.9),
    "pairs/elman/4/300": (0.0, 0.5),
    "reviews/all-channels": (0.85, 1.0),
    "reviews/no-polarity": (0.0, 0.8),
}


# Memory, pairs, steps and seeds: the chapter's runs, and longer ones that tell patience from size.
PAIRS = (
    ("softmax", 48, 300, 5),
    ("linear", 16, 300, 5),
    ("linear", 16, 1500, 3),
    ("linear", 48, 300, 5),
    ("linear", 48, 1500, 3),
    ("linear", 48, 4000, 2),
    ("elman", 4, 300, 5),
    ("elman", 4, 3000, 2),
    ("gru", 4, 3000, 2),
)


# Name, model, training and test batches, number of seeds, options of `fit`.
Run = tuple[str, Callable, Any, int, dict[str, Any]]

pairs = partial(tasks.batches, tasks.associative_recall)
reviews = partial(tasks.batches, tasks.negated_reviews)


def first(length):
    """Return training and test batches of first-token recall."""
    make = partial(tasks.batches, tasks.first_token_recall)
    return make(64, length), make(2000, length)


def run(make_model: Callable, train_on, test_on, seed: int, **options: Any) -> dict[str, Any]:
    """Train one model with one seed, and measure it on 2,000 unseen examples."""
    train.set_seed(seed)
    model = make_model()
    history = train.fit(model, train_on, seed=seed, device="cpu", progress=False, **options)
    return {
        "accuracy": round(train.evaluate(model, test_on, seed=seed), 4),
        "steps": len(history.losses),
    }


def recall_runs() -> list[Run]:
    """List the runs of first-token recall."""
    runs: list[Run] = []
    quick = {"steps": 300, "lr": 3e-3, "stop": 0.99}
    read = partial(AttentionReader, 100)
    for length in (2, 5, 10, 20, 50, 100):
        runs.append((f"first/attention/{length}", read, first(length), 8, quick))
        if length <= 50:
            runs.append((f"first/elman/{length}", RecurrentReader, first(length), 5, quick))
    slow = quick | {"steps": 100, "lr": 1e-3, "measure_every": 10}
    runs.append(("first-slow/attention/100", read, first(100), 8, slow))
    bag = partial(read, use_positions=False)
    runs.append(("first/attention-no-positions/100", bag, first(100), 5, quick))
    patient = quick | {"steps": 2000, "measure_every": 50}
    for kind in ("elman", "gru", "lstm"):
        model = partial(RecurrentReader, kind)
        runs.append((f"first-patient/{kind}/20", model, first(20), 3, patient))
    return runs


def other_runs() -> list[Run]:
    """List the runs of associative recall and of the reviews."""
    runs: list[Run] = []
    for memory, size, steps, seeds in PAIRS:
        task = (pairs(64, size), pairs(2000, size))
        name, model = f"pairs/{memory}/{size}/{steps}", partial(PairReader, memory)
        runs.append((name, model, task, seeds, {"steps": steps, "lr": 1e-2}))
    readers: dict[str, dict[str, Any]] = {
        "all-channels": {},
        "no-attention": {"use_attention": False},
    }
    for dropped in CHANNELS:
        readers[f"no-{dropped}"] = {"channels": [name for name in CHANNELS if name != dropped]}
    for name, chosen in readers.items():
        model = partial(BiLSTMWithAttention, len(tasks.WORDS), **chosen)
        task = (reviews(64), reviews(2000, held_out=True))
        runs.append((f"reviews/{name}", model, task, 8, {"steps": 100, "lr": 5e-3}))
    return runs


def measure(name: str, model: Callable, task: Any, seeds: int, options: dict) -> dict[str, Any]:
    """Run one line of the plan with every seed, and compare it with its band."""
    each = [run(model, *task, seed, **options) for seed in range(seeds)]
    accuracy = [one["accuracy"] for one in each]
    low, high = min(accuracy), max(accuracy)
    steps = [one["steps"] for one in each]
    print(f"{name:34} {low:.3f} to {high:.3f} after {steps}", flush=True)
    band = BANDS.get(name) or BANDS.get(name[: name.rfind("/") + 1])
    kept = band is None or band[0] <= low <= high <= band[1]
    return {"low": low, "high": high, "band": band, "kept": kept, "runs": each} | options


def kept(path: Path, only: str) -> dict[str, Any]:
    """Return the stored results that are not repeated, which a shorter run leaves alone."""
    if not only:
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))["accuracy"]
    return {name: result for name, result in stored.items() if not name.startswith(only)}


def main() -> None:
    """Run the plan and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument(
        "--only", default="", help="repeat the runs whose name starts so, such as pairs/"
    )
    arguments = parser.parse_args()
    out, only = arguments.out, arguments.only
    torch.set_num_threads(1)
    start = time.process_time()
    plan = [line for line in recall_runs() + other_runs() if line[0].startswith(only)]
    results = kept(out, only) | {name: measure(name, *rest) for name, *rest in plan}
    about = {
        "device": "cpu, 1 thread",
        "machine": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "attncourse": attncourse.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "repeated": f"{only}*",
        "cpu_seconds": round(time.process_time() - start, 1),
    }
    write(out, {"about": about, "accuracy": results})
    print(f"{about['cpu_seconds']} s of processor time; written to {out}")
    if outside := [name for name, result in results.items() if not result["kept"]]:
        raise SystemExit(f"outside their bands: {', '.join(outside)}")


if __name__ == "__main__":
    main()
