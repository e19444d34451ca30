"""Train the small Llama that the figures of the course look into, and keep it in 8 bits.

The model is the reader's own (`attncourse.models.from_scratch`), trained by the reader's own loop
on Python's documentation: the topics of its manual and the docstrings of its standard library, read
from their source files. One document in twenty is held out. Writes the weights beside the loader,
attncourse/models/small_llama/, and the curves into attncourse/notebook/results/small_llama.json.

    python benchmarks/small_llama.py                  about half an hour on two cores
"""

from __future__ import annotations

import argparse
import ast
import math
import re
import sysconfig
import time
from collections import Counter
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
from record import circumstances, write
from torch import nn

import attncourse
from attncourse.models import small_llama
from attncourse.models.from_scratch import cross_entropy, fit, generate
from attncourse.text import Tokenizer
from attncourse.text.bpe import learn_merges

SHOWN = Path(attncourse.__file__).parent / "notebook" / "results" / "small_llama.json"
SEED, STEPS, BATCH, HIGHEST, DROPOUT = 0, 2400, 16, 4e-3, 0.05
SIZES = {
    "vocab_size": 1024,
    "d_model": 160,
    "num_layers": 4,
    "num_heads": 5,
    "num_kv_heads": 1,
    "head_dim": 32,
    "d_ff": 432,
    "base": 10_000.0,
    "eps": 1e-5,
}
CONTEXT = 192
NOT_TAUGHT = {"test", "tests", "idlelib", "lib2to3", "turtledemo", "site-packages", "pydoc_data"}
PLAIN = re.compile(r"[^\x20-\x7e\n]")
SHORTEST = 60  # characters of a docstring that says something


def docstrings(path):
    """Collect what a source file says of itself, without importing it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    speaks = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, speaks)]
    return "\n\n".join(text for text in texts if text and len(text) >= SHORTEST)


def documents():
    """List Python's documentation: topics first, then modules, each paragraph once."""
    from pydoc_data.topics import topics

    library = Path(sysconfig.get_path("stdlib"))
    files = [f for f in sorted(library.rglob("*.py")) if not NOT_TAUGHT & set(f.parts)]
    texts = [text for _, text in sorted(topics.items())] + [docstrings(file) for file in files]
    seen, kept = set(), []
    for text in texts:
        new = [p for p in PLAIN.sub("", text).split("\n\n") if p.strip() and p.strip() not in seen]
        seen.update(p.strip() for p in new)
        kept.append("\n\n".join(p.strip("\n") for p in new))
    return [text for text in kept if text]


def parts(texts):
    """Split documents into a text to learn from and one that is held out."""
    held_out = "\n\n".join(texts[7::20])
    return "\n\n".join(text for i, text in enumerate(texts) if i % 20 != 7), held_out


def pairs_loss(learned, asked, smooth=0.1):
    """Return the nats per symbol when only the symbol before is known; unseen pairs are mixed."""
    alone, pairs, first = (
        Counter(learned),
        Counter(pairwise(learned)),
        Counter(learned[:-1]),
    )
    known = len(alone | Counter(asked))
    nats = 0.0
    for a, b in pairwise(asked):
        single = (alone[b] + 1) / (len(learned) + known)
        nats -= math.log((1 - smooth) * pairs[a, b] / max(1, first[a]) + smooth * single)
    return nats / (len(asked) - 1)


def held_out_loss(model, ids):
    """Return the nats per token over windows that do not overlap."""
    windows = torch.tensor(ids).unfold(0, CONTEXT + 1, CONTEXT)  # (n, CONTEXT + 1)
    training = model.training
    model.eval()
    with torch.no_grad():
        losses = [cross_entropy(model(w[:, :-1]), w[:, 1:]) for w in windows.split(32)]
        rows = [len(w) for w in windows.split(32)]
    model.train(training)
    return sum(n * loss.item() for n, loss in zip(rows, losses, strict=True)) / len(windows)


def with_dropout(model, p):
    """Drop some of what each half of a block adds, in training only."""
    for block in model.blocks:
        for half in (block.attention, block.feed_forward):
            half.register_forward_hook(
                lambda module, _, out: nn.functional.dropout(out, p, module.training)
            )
    return model


class Batches:
    """Cut random windows; every so often say how the held-out text fares."""

    def __init__(self, ids, measure, *, every, seed):
        self.windows = torch.tensor(ids).unfold(0, CONTEXT + 1, 1)
        self.random = torch.Generator().manual_seed(seed)
        self.measure, self.every, self.step, self.curve = measure, every, 0, []
        self.begin = time.perf_counter()

    def __call__(self):
        """Return inputs and targets (BATCH, CONTEXT)."""
        if self.step % self.every == 0:
            self.curve.append([self.step, self.measure()])
            minutes = (time.perf_counter() - self.begin) / 60
            print(f"step {self.step}: {self.curve[-1][1]:.3f} nats, {minutes:.1f} min", flush=True)
        self.step += 1
        chosen = self.windows[torch.randint(len(self.windows), (BATCH,), generator=self.random)]
        return chosen[:, :-1], chosen[:, 1:]


def train(texts, *, steps, every, seed=SEED):
    """Train the model; return it, its tokenizer, the held-out text and what was measured."""
    learned, held_out = parts(texts)
    tokenizer = Tokenizer(tuple(learn_merges(learned, SIZES["vocab_size"] - 256)))
    ids, asked = tokenizer.encode(learned), tokenizer.encode(held_out)
    torch.manual_seed(seed)
    model = with_dropout(small_llama.make(SIZES | {"vocab_size": len(tokenizer)}), DROPOUT)
    batches = Batches(ids, partial(held_out_loss, model, asked), every=every, seed=seed)
    losses = fit(model, batches, steps, HIGHEST, warm_up=min(100, steps // 2))
    per_token, per_character = held_out_loss(model, asked), len(asked) / len(held_out)
    found = {
        "characters": {"learned": len(learned), "held_out": len(held_out)},
        "tokens": {"learned": len(ids), "held_out": len(asked)},
        "minutes": (time.perf_counter() - batches.begin) / 60,
        "curve": [*batches.curve, [steps, per_token]],
        "training": [
            sum(losses[i : i + 50]) / len(losses[i : i + 50]) for i in range(0, steps, 50)
        ],
        "nats_per_token": per_token,
        "nats_per_character": per_token * per_character,
        "pairs_of_characters": pairs_loss(learned, held_out),
        "pairs_of_tokens_per_character": pairs_loss(ids, asked) * per_character,
    }
    return model, tokenizer, held_out, found


def written(model, tokenizer, prompts, seed=SEED):
    """Let the kept model write, so that a page can quote it."""
    random = torch.Generator().manual_seed(seed)
    choice = {"temperature": 0.7, "top_p": 0.95}
    return {
        prompt: tokenizer.decode(
            generate(model, torch.tensor([tokenizer.encode(prompt)]), 120, random, **choice)[0],
            errors="replace",
        )
        for prompt in prompts
    }


def main():
    """Train, keep, read back, measure again, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--every", type=int, default=250)
    asked = parser.parse_args()
    model, tokenizer, held_out, found = train(documents(), steps=asked.steps, every=asked.every)
    small_llama.save(model, tokenizer, held_out[:20_000])
    kept, tokenizer = small_llama.load()
    excerpt = tokenizer.encode(small_llama.held_out_text())
    write(
        SHOWN,
        {
            **circumstances(__file__),
            "seed": SEED,
            "steps": asked.steps,
            "batch": BATCH,
            "context": CONTEXT,
            "parameters": sum(p.numel() for p in kept.parameters()),
            **found,
            "kept_nats_per_token": held_out_loss(kept, tokenizer.encode(held_out)),
            "excerpt_nats_per_token": held_out_loss(kept, excerpt),
            "written": written(kept, tokenizer, ("The ", "Return ", "def ", "If the argument is")),
        },
    )


if __name__ == "__main__":
    main()
