"""Train a layer whose mask leaks, as in chapter 07, and a character GPT, on several seeds.

Chapter 07 trains the layer and asserts a band; this script is where the band comes from. The GPT
reads Python's manual. The leak is a causal mask that reaches one key too far, trained on symbols
that nobody can predict. Writes benchmarks/results/gpt_seeds.json.

    python benchmarks/gpt_seeds.py --seeds 5
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from record import circumstances, write

from attncourse import train
from attncourse.measure import probes
from attncourse.models.gpt import GPT, GPTConfig
from attncourse.models.reader import Reader
from attncourse.text import corpus

LENGTH, BATCH = 64, 32
PHASES = ((450, 4e-3), (150, 1e-3))
RESULTS = Path(__file__).parent / "results" / "gpt_seeds.json"


class OneTooFar(Reader):
    """A causal layer whose triangle reaches one key too far."""

    def hiding(self):
        """Return the mask with its mistake."""
        return {"attn_mask": torch.ones(12, 12).tril(1).bool()}


def random_next(generator):
    tokens = torch.randint(10, (64, 13), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]


def one_gpt(docs, seed):
    train.set_seed(seed)
    model = GPT(
        GPTConfig(len(docs), LENGTH, d_model=64, num_layers=2, num_heads=4, positions="rotary")
    )
    for number, (steps, lr) in enumerate(PHASES):
        train.fit(
            model,
            docs.batches(BATCH, LENGTH),
            steps=steps,
            lr=lr,
            seed=seed + number,
            progress=False,
        )
    unseen = docs.batches(1024, LENGTH, held_out=True)
    tokens, _ = docs.batches(1, LENGTH, held_out=True)(torch.Generator().manual_seed(seed))
    return {
        "seed": seed,
        "held_out_nats": train.evaluate(model, unseen, train.cross_entropy, seed=seed),
        "outputs_that_know_their_future": int(
            probes.influence(model, tokens, len(docs)).triu(1).sum()
        ),
    }


def one_leak(seed):
    found = {"seed": seed}
    for name, kind in (("causal", Reader), ("one_too_far", OneTooFar)):
        train.set_seed(seed)
        model = kind(causal=True)
        history = train.fit(model, random_next, steps=200, lr=3e-3, seed=seed, progress=False)
        found[name] = float(np.mean(history.losses[-20:]))
    return found


def about(docs):
    return {
        **circumstances(__file__),
        "text": f"{len(docs.text)} characters, {len(docs)} different",
        "bigram_nats": docs.bigram_loss(),
        "best_possible_without_the_leak": float(np.log(10)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    docs = corpus.python_docs()
    leaks = [one_leak(seed) for seed in range(chosen.seeds)]
    print(*leaks, sep="\n", file=sys.stderr)
    gpts = []
    for seed in range(chosen.seeds):
        gpts.append(one_gpt(docs, seed))
        print(gpts[-1], file=sys.stderr, flush=True)
    found = about(docs) | {"gpt": gpts, "leak": leaks}
    write(RESULTS, found)


if __name__ == "__main__":
    main()
