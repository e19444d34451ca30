"""Train one attention layer with and without the scale, on several seeds and widths.

Chapter 04 trains a few of these runs and asserts a band; this script is where the band comes from.
For each width and seed it records how many steps reversal takes, how widely the scores spread at
the start and at the end, and how much gradient the median and the mean row of scores receive at
the start. Writes benchmarks/results/scaling_seeds.json.

    python benchmarks/scaling_seeds.py --seeds 6
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from record import circumstances, write

from attncourse import tasks, train
from attncourse.models.one_layer import OneLayer

SEQ_LEN, BATCH, STEPS, LR, SOLVED = 16, 64, 600, 3e-3, 0.999
RESULTS = Path(__file__).parent / "results" / "scaling_seeds.json"


def make_batch(generator):
    return tasks.reversal(BATCH, SEQ_LEN, generator=generator)


def gradient_at_scores(model):
    """Return the gradient norm of the loss at each row of scores, on one batch."""
    tokens, target = make_batch(torch.Generator().manual_seed(1))
    scores = model.scores(tokens).detach().requires_grad_()
    _, _, value = model.project(tokens)
    loss = train.cross_entropy(model.answer(scores.softmax(-1) @ value.squeeze(1)), target)
    (gradient,) = torch.autograd.grad(loss, scores)
    return gradient.norm(dim=-1).flatten()


def one_run(head_dim, scale, seed):
    train.set_seed(seed)
    model = OneLayer(SEQ_LEN, head_dim=head_dim, scale=scale)
    tokens, _ = make_batch(torch.Generator().manual_seed(2))
    rows = gradient_at_scores(model)
    with torch.no_grad():
        before = model.scores(tokens).std().item()
    history = train.fit(
        model,
        make_batch,
        steps=STEPS,
        lr=LR,
        seed=seed,
        stop=SOLVED,
        measure_every=10,
        progress=False,
    )
    with torch.no_grad():
        scores = model.scores(tokens)
    weights = scores.softmax(-1).mean(0)
    return {
        "seed": seed,
        "steps_to_solve": history.stopped_at,
        "accuracy": history.metrics[-1],
        "spread_before": before,
        "spread_after": scores.std().item(),
        "least_weight_on_the_mirror": weights.flip(1).diagonal().min().item(),
        "median_row_gradient": rows.median().item(),
        "mean_row_gradient": rows.mean().item(),
    }


def about():
    return {
        **circumstances(__file__),
        "task": f"reversal of {SEQ_LEN} symbols of 10, batch {BATCH}",
        "training": f"Adam, lr {LR}, clip 1.0, at most {STEPS} steps, solved at {SOLVED}",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--widths", type=int, nargs="+", default=[16, 64, 256, 512])
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    groups = []
    for head_dim in chosen.widths:
        for name, scale in (("divided", None), ("not divided", 1.0)):
            runs = [one_run(head_dim, scale, seed) for seed in range(chosen.seeds)]
            groups.append({"head_dim": head_dim, "scores": name, "runs": runs})
            steps = [run["steps_to_solve"] for run in runs]
            print(f"E = {head_dim:4d}, {name:11}: solved after {steps} steps", file=sys.stderr)
    write(RESULTS, about() | {"groups": groups})


if __name__ == "__main__":
    main()
