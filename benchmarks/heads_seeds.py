"""Train one layer with one, two and four heads on two look-ups at once, on several seeds.

Chapter 05 trains such runs, some shorter, and asserts a band; here are more of them, and longer.
Every position has to name the symbols of two other places. Without a head for each, a linear
readout cannot tell the two apart; with a small network behind it, one head is enough.
Writes benchmarks/results/heads_seeds.json.

    python benchmarks/heads_seeds.py --seeds 6
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from record import circumstances, write

from attncourse import tasks, train
from attncourse.models.reader import Reader

SEQ_LEN, BATCH, STEPS, LR, SOLVED = 12, 64, 500, 3e-3, 0.999
ARMS = {
    "1 head": {"num_heads": 1},
    "2 heads": {"num_heads": 2},
    "4 heads": {"num_heads": 4},
    "1 head, network behind it": {"num_heads": 1, "hidden": 64},
}
RESULTS = Path(__file__).parent / "results" / "heads_seeds.json"

make_batch = tasks.batches(tasks.two_lookups, BATCH, SEQ_LEN)


def one_run(seed, options):
    train.set_seed(seed)
    model = Reader(answers=2, **options)
    history = train.fit(
        model,
        make_batch,
        steps=STEPS,
        lr=LR,
        seed=seed,
        stop=SOLVED,
        measure_every=25,
        progress=False,
    )
    return {
        "seed": seed,
        "steps_to_solve": history.stopped_at,
        "accuracy": history.metrics[-1],
        "loss": history.losses[-1],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def about():
    return {
        **circumstances(__file__),
        "task": f"two look-ups in {SEQ_LEN} symbols of 10, batch {BATCH}",
        "training": f"Adam, lr {LR}, clip 1.0, at most {STEPS} steps, solved at {SOLVED}",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    groups = []
    for name, options in ARMS.items():
        runs = [one_run(seed, options) for seed in range(chosen.seeds)]
        groups.append({"heads": name, "runs": runs})
        found = [f"{run['accuracy']:.2f} ({run['steps_to_solve']})" for run in runs]
        print(f"{name}: accuracy (steps to solve) {', '.join(found)}", file=sys.stderr)
    write(RESULTS, about() | {"groups": groups})


if __name__ == "__main__":
    main()
