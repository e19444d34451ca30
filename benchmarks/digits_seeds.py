"""Train chapter 12's networks on scikit-learn's digits, on several seeds.

The chapter trains one seed of each and asserts bands; this script is where the bands come from.
Besides accuracies it records what hiding the patches that a rollout names does, beside
two controls, and what another picture size does. Writes benchmarks/results/digits_seeds.json.

    python benchmarks/digits_seeds.py --seeds 6
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import sklearn
import torch
from record import circumstances, write

from attncourse import train
from attncourse.layers.rollout import rollout
from attncourse.models.small_pictures import KINDS, ConvNet, WindowNet
from attncourse.models.vit import ViT, ViTConfig, patchify
from attncourse.tasks import pictures

RESULTS = Path(__file__).parent / "results" / "digits_seeds.json"
BATCH = 32
# Steps and learning rate, one after the other.
LONG, SHORT, WINDOWS = [(500, 3e-3), (250, 6e-4)], [(300, 3e-3), (150, 6e-4)], [(200, 3e-3)]
NETWORKS = {
    "ViT": (lambda: ViT(ViTConfig()), LONG),
    "ViT, mean of patches": (lambda: ViT(ViTConfig(pool="mean", class_tokens=0)), LONG),
    "ViT, no positions": (lambda: ViT(ViTConfig(use_positions=False)), SHORT),
    "convolutions": (ConvNet, SHORT),
    **{f"{kind} windows": (lambda kind=kind: WindowNet(kind), WINDOWS) for kind in KINDS},
}


def trained(make, plan, digits, seed):
    train.set_seed(seed)
    model = make()
    start = time.process_time()
    for steps, lr in plan:
        train.fit(
            model,
            lambda g: digits.batch(BATCH, g),
            steps=steps,
            lr=lr,
            seed=seed,
            progress=False,
            device="cpu",
        )
    return model.eval(), time.process_time() - start


@torch.no_grad()
def accuracy(model, some, target):
    return train.accuracy(model(some), target)


def without(some, scores, count):
    """Paint the patches with the highest scores white."""
    patches = patchify(some, 2).clone()
    worst = scores.argsort(dim=-1, descending=True)[:, :count, None]
    patches.scatter_(1, worst.expand(-1, -1, 4), -1.0)
    return patches.view(-1, 4, 4, 2, 2).transpose(2, 3).reshape(some.shape)


def what_hiding_does(model, digits, seed):
    """Return the accuracy after hiding the two patches that each ranking puts first."""
    some, target = digits.held_out_pictures, digits.held_out_target
    train.set_seed(seed + 100)
    fresh = ViT(ViTConfig()).eval()
    rankings = {
        "rollout": rollout(model.attention_weights(some))[:, 0, 1:],
        "rollout of an untrained ViT": rollout(fresh.attention_weights(some))[:, 0, 1:],
        "ink": patchify(some, 2).mean(-1),
        "chance": torch.rand(len(some), 16),
    }
    return {
        name: accuracy(model, without(some, scores, 2), target) for name, scores in rankings.items()
    }


def what_size_does(model, digits):
    """Return the accuracy at 12 x 12 pixels, with positions stretched in two ways."""
    larger = torch.nn.functional.interpolate(digits.held_out_pictures, (12, 12), mode="bilinear")
    found, grown = {}, model.at_size(12)
    found["as a plane"] = accuracy(grown, larger, digits.held_out_target)
    line = torch.nn.functional.interpolate(model.position[1:].T[None], 36, mode="linear")
    grown.position.data[1:] = line[0].T
    found["as a line"] = accuracy(grown, larger, digits.held_out_target)
    return found


def one_seed(digits, seed):
    found = {
        "seed": seed,
        "accuracy": {},
        "after a shift by one pixel": {},
        "processor seconds": {},
    }
    moved = pictures.shifted(digits.held_out_pictures, 0, 1)
    for name, (make, plan) in NETWORKS.items():
        model, seconds = trained(make, plan, digits, seed)
        found["accuracy"][name] = accuracy(model, digits.held_out_pictures, digits.held_out_target)
        found["after a shift by one pixel"][name] = accuracy(model, moved, digits.held_out_target)
        found["processor seconds"][name] = round(seconds, 1)
        if name == "ViT":
            found["two patches hidden"] = what_hiding_does(model, digits, seed)
            found["at 12 x 12 pixels"] = what_size_does(model, digits)
    return found


def about():
    return {
        **circumstances(__file__),
        "scikit-learn": sklearn.__version__,
        "data": "scikit-learn digits, 1437 for training, 360 held out, the same split each time",
        "training": f"Adam, batch {BATCH}, clip 1.0; steps and lr: ViT {LONG}, "
        f"no positions and convolutions {SHORT}, windows {WINDOWS}",
        "parameters": {
            name: sum(p.numel() for p in make().parameters())
            for name, (make, _) in NETWORKS.items()
        },
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    digits, runs = pictures.digits(), []
    for seed in range(chosen.seeds):
        runs.append(one_seed(digits, seed))
        shown = {name: f"{value:.3f}" for name, value in runs[-1]["accuracy"].items()}
        print(f"seed {seed}: {shown}", file=sys.stderr, flush=True)
    write(RESULTS, about() | {"runs": runs})


if __name__ == "__main__":
    main()
