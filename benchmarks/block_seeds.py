"""Train the Llama of chapter 08 whole, and with each part of its block removed or exchanged.

Several seeds each, on the characters of Python's manual, with the reader's own training loop; then
three seeds of a deep stack that starts from large weights: whole, post-norm and without adding. The
classes and functions that change a model are those of the chapter; a test holds them equal. Writes
attncourse/notebook/results/block_removals.json, which the chapter shows.

    python benchmarks/block_seeds.py --seeds 8          about 20 minutes on one core
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch
from record import circumstances, write
from torch import nn

import attncourse
from attncourse.models.from_scratch import Llama, cross_entropy, fit
from attncourse.text import corpus

SHOWN = Path(attncourse.__file__).parent / "notebook" / "results" / "block_removals.json"
SIZES = {"d_model": 64, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2, "head_dim": 16}
SIZES |= {"d_ff": 168, "base": 10_000.0}
SEEDS = 8
BATCH, LENGTH, STEPS, HIGHEST = 32, 64, 200, 4e-3
DEEP = {"num_layers": 12, "steps": 150, "large": True}
DEEP_PARTS, DEEP_SEEDS = ("nothing", "pre-norm", "adding"), 3
PARTS = ("nothing", "attention", "feed-forward", "norms", "adding", "gate", "rms", "pre-norm")


class LayerNorm(nn.Module):
    """Centre each token, then divide it by its spread."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias, self.eps = nn.Parameter(torch.zeros(d_model)), eps

    def forward(self, x):
        """Turn tokens (..., d_model) into tokens of the same shape."""
        x = x - x.mean(-1, keepdim=True)
        variance = x.pow(2).mean(-1, keepdim=True)
        return x * (variance + self.eps).rsqrt() * self.weight + self.bias


class GELULayer(nn.Module):
    """Widen each token, bend it, narrow it again."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up = nn.Linear(d_model, d_ff)
        self.down = nn.Linear(d_ff, d_model)

    def forward(self, x):
        """Turn tokens (..., d_model) into tokens of the same shape."""
        x = self.up(x)
        bent = torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))
        return self.down(x * (1 + bent) / 2)


class Nothing(nn.Module):
    """Add nothing to any token."""

    def forward(self, x, cache=None):
        """Turn tokens (B, L, d_model) into tokens of the same shape."""
        return torch.zeros_like(x)


class Replacing(nn.Module):
    """Do what a block does, and forget what came in."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x, cache=None):
        """Turn tokens (B, L, d_model) into tokens of the same shape."""
        x = self.block.attention(self.block.attention_norm(x), cache)
        return self.block.feed_forward(self.block.feed_forward_norm(x))


class PostNorm(Replacing):
    """Normalise the stream itself, after adding."""

    def forward(self, x, cache=None):
        """Turn tokens (B, L, d_model) into tokens of the same shape."""
        x = self.block.attention_norm(x + self.block.attention(x, cache))
        return self.block.feed_forward_norm(x + self.block.feed_forward(x))


def without(part, block):
    if part == "attention":
        block.attention = Nothing()
    elif part == "feed-forward":
        block.feed_forward = Nothing()
    elif part == "norms":
        block.attention_norm = block.feed_forward_norm = nn.Identity()
    elif part == "gate":
        block.feed_forward = GELULayer(64, 252)
    elif part == "rms":
        block.attention_norm = LayerNorm(64)
        block.feed_forward_norm = LayerNorm(64)
    wrap = {"adding": Replacing, "pre-norm": PostNorm}
    return wrap[part](block) if part in wrap else block


def large_weights(model):
    """Start every map with weights that keep the spread of what they read."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5)


def trained(docs, part, seed, *, num_layers=2, steps=STEPS, large=False):
    """Train one model without a part, and say what a held-out character costs it."""
    torch.manual_seed(seed)
    model = Llama(len(docs), **SIZES | {"num_layers": num_layers})
    model.blocks = nn.ModuleList(without(part, block) for block in model.blocks)
    if large:
        large_weights(model)
    generator, make_batch = torch.Generator().manual_seed(seed), docs.batches(BATCH, LENGTH)
    fit(model, lambda: make_batch(generator), steps, HIGHEST)
    unseen = docs.batches(512, LENGTH, held_out=True)(torch.Generator().manual_seed(seed))
    with torch.no_grad():
        return cross_entropy(model(unseen[0]), unseen[1]).item()


def unigram_nats(docs):
    """Return what a held-out character costs when nothing before it is known."""
    counts = torch.bincount(docs.training, minlength=len(docs)).double() + 1
    return -(counts / counts.sum()).log()[docs.held_out].mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    docs = corpus.python_docs()
    found = {
        **circumstances(__file__),
        "sizes": SIZES,
        "steps": STEPS,
        "bigram_nats": docs.bigram_loss(),
        "unigram_nats": unigram_nats(docs),
        "held_out_nats": {part: [] for part in PARTS},
        "deep": {**DEEP, "held_out_nats": {part: [] for part in DEEP_PARTS}},
    }
    for seed in range(chosen.seeds):
        for part in PARTS:
            found["held_out_nats"][part].append(trained(docs, part, seed))
        for part in DEEP_PARTS if seed < DEEP_SEEDS else ():
            found["deep"]["held_out_nats"][part].append(trained(docs, part, seed, **DEEP))
        print(json.dumps(found), file=sys.stderr, flush=True)
        write(SHOWN, found)


if __name__ == "__main__":
    main()
