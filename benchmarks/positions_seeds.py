"""Train one layer with every way of telling positions, on several seeds and three tasks.

Chapter 06 trains such runs, some shorter, and asserts bands; here are more of them.
Reversal asks for a place counted from the end; the other two ask for a place counted from the
reader, and are tried on texts up to eight times as long as those of the training.
Writes benchmarks/results/positions_seeds.json.

    python benchmarks/positions_seeds.py --seeds 6
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from record import circumstances, write

from attncourse import tasks, train
from attncourse.models.reader import POSITIONS, Reader

BATCH, LR, HEADS, TRAINED = 64, 3e-3, 4, 16
LENGTHS = (16, 32, 64, 128)
# task: name, steps, symbols that come in, causal, lengths to test
TASKS = (
    ("reversal", 300, 10, False, (TRAINED,)),
    ("some_places_back", 300, 10, True, LENGTHS),
    ("latest_mark", 300, 20, True, LENGTHS),
)
RESULTS = Path(__file__).parent / "results" / "positions_seeds.json"


def whole_sequences(output, target):
    """Return the share of sequences without a mistake."""
    return (output.argmax(-1) == target).all(-1).float().mean().item()


def one_run(task, steps, num_symbols, causal, lengths, position, seed):
    make = getattr(tasks, task)
    train.set_seed(seed)
    model = Reader(num_symbols, num_heads=HEADS, position=position, max_len=128, causal=causal)
    train.fit(model, tasks.batches(make, BATCH, TRAINED), steps=steps, lr=LR, seed=seed,
              progress=False)  # fmt: skip
    scores = {
        str(length): train.evaluate(model, tasks.batches(make, 256, length), seed=seed)
        for length in lengths
    }
    run = {"seed": seed, "accuracy": scores}
    if task == "reversal":
        batch = tasks.batches(make, 256, TRAINED)
        run["whole_sequences"] = train.evaluate(model, batch, whole_sequences, seed=seed)
    return run


def about():
    return {
        **circumstances(__file__),
        "training": f"{TRAINED} symbols, {HEADS} heads, Adam, lr {LR}, clip 1.0, batch {BATCH}",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    groups = []
    for task in TASKS:
        for position in POSITIONS:
            runs = [one_run(*task, position, seed) for seed in range(chosen.seeds)]
            groups.append({"task": task[0], "position": position, "runs": runs})
            worst = {n: min(run["accuracy"][n] for run in runs) for n in runs[0]["accuracy"]}
            best = {n: max(run["accuracy"][n] for run in runs) for n in runs[0]["accuracy"]}
            bands = ", ".join(f"{n}: {worst[n]:.2f}-{best[n]:.2f}" for n in worst)
            print(f"{task[0]}, {position}: {bands}", file=sys.stderr)
    write(RESULTS, about() | {"groups": groups})


if __name__ == "__main__":
    main()
