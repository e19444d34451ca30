"""Train the models of chapter 09 on several seeds and measure what the chapter asserts.

For each seed: the loss of the small GPT on unseen text, its loss against the context it is shown
(and with a foreign context before the last four characters), how many real and how many different
words each way to choose writes, and how often a planted fact is recalled from each distance.
Writes benchmarks/results/generate_seeds.json.

    python benchmarks/generate_seeds.py --seeds 5
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import torch
from record import circumstances, write

from attncourse import train
from attncourse.models.generate import generate
from attncourse.models.gpt import GPT, GPTConfig
from attncourse.text.corpus import python_docs

RESULTS = Path(__file__).parent / "results" / "generate_seeds.json"
CHOICES = {
    "greedy": {"temperature": 0},
    "T = .5": {"temperature": 0.5},
    "top-k 5": {"top_k": 5},
    "top-p .9": {"top_p": 0.9},
    "T = 1": {},
}
CONTEXTS = [1, 2, 4, 8, 16, 32, 64, 128]
WINDOW, LETTERS, ASK = 32, 20, 30
BACKS = [1, 8, 16, 24, 30, 31, 32, 33, 40, 48, 64]


def writer(docs, seed):
    """Return the chapter's GPT, trained."""
    train.set_seed(seed)
    model = GPT(GPTConfig(len(docs), max_len=128, d_model=64, num_layers=2, positions="rotary"))
    train.fit(model, docs.batches(8, 128), steps=600, lr=4e-3, seed=seed, progress=False)
    return model


def nats_by_context(docs, model):
    pieces = docs.held_out.unfold(0, 129, 61)
    foreign = pieces[:, :128].roll(1, dims=0)
    foreign[:, -4:] = pieces[:, 124:128]
    contexts = [pieces[:, 128 - size : 128] for size in CONTEXTS] + [foreign]
    with torch.no_grad():
        return [
            train.cross_entropy(model(shown)[:, -1], pieces[:, 128]).item() for shown in contexts
        ]


def sense_and_variety(docs, model, seed):
    known = set(re.findall(r"[a-z]{3,}", docs.text.lower()))
    start = docs.encode("\nThe ")[None].expand(32, -1)
    found = {}
    for name, cut in CHOICES.items():
        texts = [docs.decode(row) for row in generate(model, start, 110, generator=seed, **cut)]
        words = re.findall(r"[a-z]{3,}", " ".join(texts).lower())
        real = sum(word in known for word in words) / len(words)
        found[name] = {"real": real, "different": len(set(words)) / len(words)}
    return found


def planted(generator, length=WINDOW, back=None):
    text = torch.randint(LETTERS, (64, length), generator=generator)
    fact = torch.randint(LETTERS, ASK, (64,), generator=generator)
    if back is None:
        back = torch.randint(1, WINDOW, (64,), generator=generator)
    text[torch.arange(64), length - 1 - back] = fact
    text[:, -1] = ASK
    return text, fact


def recall_by_distance(seed):
    train.set_seed(seed)
    model = GPT(GPTConfig(ASK + 1, WINDOW, d_model=32, num_layers=1))
    train.fit(
        model,
        planted,
        lambda output, target: train.cross_entropy(output[:, -1], target),
        steps=200,
        lr=5e-3,
        seed=seed,
        metric=lambda output, target: train.accuracy(output[:, -1], target),
        progress=False,
    )
    right = []
    for back in BACKS:
        text, fact = planted(torch.Generator().manual_seed(seed), 96, back)
        said = generate(model, text, 1, temperature=0, at_edge="slide")
        right.append((said[:, -1] == fact).float().mean().item())
    return right


def one_seed(docs, seed):
    model = writer(docs, seed)
    *nats, foreign = nats_by_context(docs, model)
    unseen = docs.batches(64, 128, held_out=True)
    return {
        "seed": seed,
        "unseen_nats": train.evaluate(model, unseen, train.cross_entropy, seed=seed),
        "nats_by_context": nats,
        "nats_with_foreign_context": foreign,
        "choices": sense_and_variety(docs, model, seed),
        "recall_by_distance": recall_by_distance(seed),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    docs = python_docs()
    results = {
        **circumstances(__file__),
        "bigram_nats": docs.bigram_loss(),
        "contexts": CONTEXTS,
        "distances": BACKS,
        "window": WINDOW,
        "runs": [],
    }
    for seed in range(chosen.seeds):
        results["runs"].append(one_seed(docs, seed))
        print(json.dumps(results["runs"][-1]), file=sys.stderr)
        write(RESULTS, results)


if __name__ == "__main__":
    main()
