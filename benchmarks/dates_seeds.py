"""Train chapter 11's encoder-decoder and pointer, on several seeds.

The chapter trains one seed and asserts bands; this script is where the bands come from. For each
seed it records the share of exact dates on days that were never trained on, where the decoder looks
while it writes the month, what happens without the causal mask, and the summaries found with and
without a block in which the sentences see each other. Writes benchmarks/results/dates_seeds.json.

    python benchmarks/dates_seeds.py --seeds 6
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import babel
import numpy as np
import torch
from record import circumstances, write

from attncourse import tasks, train
from attncourse.models.pointer import Pointer
from attncourse.models.seq2seq import Seq2Seq, Seq2SeqConfig
from attncourse.tasks.dates import ISO, LONGEST, START, source_alphabet

RESULTS = Path(__file__).parent / "results" / "dates_seeds.json"
DATES, BATCH, PLAN, BROKEN, POINTER = 16_000, 64, [(600, 2e-3), (150, 5e-4)], [(300, 2e-3)], 300


def trained(plan, made, seed, **changes):
    train.set_seed(seed)
    config = Seq2SeqConfig(len(source_alphabet()), len(ISO), LONGEST, 10, num_heads=1, **changes)
    model = Seq2Seq(config)
    for steps, lr in plan:
        history = train.fit(
            model,
            lambda g: made.batch(BATCH, g),
            steps=steps,
            lr=lr,
            seed=seed,
            progress=False,
            device="cpu",
        )
    return model.eval(), float(np.mean(history.losses[-20:]))


def exact(model, new):
    written = model.generate(new.source, START, 10)
    return (written == new.target).all(dim=1).float().mean().item()


def weight_on_letters(model, new):
    """Return the weight on the letters of the month: writing the month, writing the year, equal."""
    cross = model.attention_weights(new.source, new.written)["cross"][0].mean(1)  # (B, 10, 18)
    rows = []
    for text, weights in zip(new.texts, cross, strict=True):
        letters = [c.isalpha() and c not in "年月日" for c in text.ljust(LONGEST)]
        if any(letters):
            on_letters = weights @ torch.tensor(letters, dtype=weights.dtype)  # (10,)
            rows.append([on_letters[5:7].mean(), on_letters[:4].mean(), sum(letters) / len(text)])
    month, year, equal = np.mean(rows, axis=0)
    return {"writing the month": month, "writing the year": year, "equal shares": equal}


def summaries(seed):
    made, new = (tasks.short_reports(n, generator=s) for n, s in ((3000, seed), (1000, 999)))

    def batch(generator):
        rows = torch.randint(len(made.target), (BATCH,), generator=generator)
        return made.words[rows], made.target[rows]

    found = {"first sentence": (new.target == 0).float().mean().item()}
    for name, layers in {"each sentence alone": 0, "sentences see each other": 1}.items():
        train.set_seed(seed)
        model = Pointer(len(tasks.REPORT_WORDS), 6, num_layers=layers)
        options = {"steps": POINTER, "lr": 3e-3, "seed": seed, "device": "cpu"}
        train.fit(model, batch, progress=False, **options)
        with torch.no_grad():
            found[name] = train.accuracy(model(new.words), new.target)
    return found


def one_seed(seed):
    made = tasks.foreign_dates(DATES, generator=seed)
    new = tasks.foreign_dates(1000, held_out=True, generator=999)
    model, loss = trained(PLAN, made, seed)
    broken, broken_loss = trained(BROKEN, made, seed, causal=False)
    honest, honest_loss = trained(BROKEN, made, seed)
    return {
        "seed": seed,
        "exact": exact(model, new),
        "loss": loss,
        "weight on letters": weight_on_letters(model, new),
        "after 300 steps": {
            "no mask": {"loss": broken_loss, "exact": exact(broken, new)},
            "causal": {"loss": honest_loss, "exact": exact(honest, new)},
        },
        "summaries": summaries(seed),
    }


def about():
    return {
        **circumstances(__file__),
        "babel": babel.__version__,
        "data": f"{DATES} dates in 9 styles of 7 languages; 1000 of days never trained on",
        "training": f"Adam, batch {BATCH}, clip 1.0; steps and lr: dates {PLAN}, "
        f"comparison without mask {BROKEN}, pointer {POINTER} steps at 3e-3",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    runs = []
    for seed in range(chosen.seeds):
        runs.append(one_seed(seed))
        print(runs[-1], file=sys.stderr, flush=True)
    write(RESULTS, about() | {"runs": runs})


if __name__ == "__main__":
    main()
