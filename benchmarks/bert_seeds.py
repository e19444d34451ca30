"""Train the models of chapter 10 on several seeds and measure what the chapter asserts.

For each seed: palindromes guessed from both sides and from the left, a copier that was shown what
it was asked for, verdicts on held-out pairs and with words hidden, the sources' sentence, and the
weights of a judge of words, head by head. Writes benchmarks/results/bert_seeds.json, and what the
judges say of the sentence with words hidden into attncourse/notebook/results/, for the chapter.

    python benchmarks/bert_seeds.py --seeds 8
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import sklearn
import torch
from record import circumstances, write
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from torch import nn

import attncourse
from attncourse import train
from attncourse.models.bert import Bert, BertConfig
from attncourse.models.gpt import GPT, GPTConfig
from attncourse.models.verdicts import SentenceVerdict, WordVerdict
from attncourse.tasks.masked_words import hide_words
from attncourse.tasks.negation import DEGREES, NEGATORS, reviews, tokenizer
from attncourse.text import pad

RESULTS = Path(__file__).parent / "results" / "bert_seeds.json"
SHOWN = Path(attncourse.__file__).parent / "notebook" / "results" / "negation_judges.json"
LETTERS, GAP, HALF = 20, 20, 6
SIZE = {"d_model": 64, "num_layers": 2, "num_heads": 4, "d_ff": 128}
SENTENCE = "The movie was not bad, it was actually great."
WORDS = tokenizer()


class Guesser(nn.Module):
    """A Bert that is asked for its guesses."""

    def __init__(self):
        super().__init__()
        self.reader = Bert(BertConfig(LETTERS + 1, 2 * HALF, norm_first=True, **SIZE))

    def forward(self, ids):
        """Score every letter at every place."""
        return self.reader.predict(ids)


def palindromes(generator):
    half = torch.randint(LETTERS, (64, HALF), generator=generator)
    return torch.cat((half, half.flip(1)), dim=1)


def gaps(generator):
    text = palindromes(generator)
    everywhere = torch.ones_like(text, dtype=torch.bool)
    return hide_words(text, everywhere, mask_id=GAP, vocab_size=LETTERS, generator=generator)


def next_letters(generator):
    text = palindromes(generator)
    return text[:, :-1], text[:, 1:]


def trained(model, make_batch, steps, lr, seed):
    """Train without measuring: the loss of a masked exam has no plain accuracy."""
    history = train.fit(
        model,
        make_batch,
        steps=steps,
        lr=lr,
        seed=seed,
        metric=lambda output, target: 0.0,
        progress=False,
    )
    return model, history.losses[-1]


def both_sides(seed):
    train.set_seed(seed)
    decoder, _ = trained(GPT(GPTConfig(LETTERS, 2 * HALF, **SIZE)), next_letters, 150, 3e-3, seed)
    train.set_seed(seed)
    encoder, _ = trained(Guesser(), gaps, 250, 3e-3, seed)
    train.set_seed(seed)
    copier, loss = trained(Guesser(), lambda g: (palindromes(g),) * 2, 100, 3e-3, seed)
    text = palindromes(torch.Generator().manual_seed(seed + 1))
    right = {"decoder": [1 / LETTERS], "encoder": [], "copier": []}
    with torch.no_grad():
        for place in range(2 * HALF):
            gap = text.index_fill(1, torch.tensor([place]), GAP)
            for name, model in (("encoder", encoder), ("copier", copier)):
                right[name].append(train.accuracy(model(gap)[:, place], text[:, place]))
            if place:
                guess = decoder(text[:, :place])[:, -1]
                right["decoder"].append(train.accuracy(guess, text[:, place]))
    return {**right, "copier_loss": loss}


def tensors(some):
    rows = [WORDS.encode(review.text, add_special=True) for review in some]
    ids, attend = pad(rows, WORDS.id_of("[PAD]"))
    return torch.from_numpy(ids), torch.from_numpy(attend)


def batches(ids, attend, target, holes):
    degree = torch.isin(ids, torch.tensor([WORDS.id_of(word) for word in DEGREES]))

    def make_batch(generator):
        rows = torch.randint(len(ids), (64,), generator=generator)
        hole = torch.rand(ids[rows].shape, generator=generator) < holes
        return (ids[rows], attend[rows] & ~(hole & degree[rows])), target[rows]

    return make_batch


def bags(lessons, exam):
    found = {}
    for name, longest in {"words": 1, "words and pairs": 2}.items():
        count = CountVectorizer(token_pattern=r"\S+", ngram_range=(1, longest))
        seen = count.fit_transform([" ".join(review.words) for review in lessons])
        judge = LogisticRegression(max_iter=500).fit(seen, [r.praises for r in lessons])
        asked = count.transform([" ".join(review.words) for review in exam])
        found[name] = judge.score(asked, [review.praises for review in exam])
    return found


def praise(judge, ids, attend, hide=()):
    holes = torch.isin(ids, torch.tensor([WORDS.id_of(word) for word in hide]))
    with torch.no_grad():
        return judge(ids, attend & ~holes).softmax(-1)[:, 1]


def sentence_verdicts(lessons, exam, seed):
    ids, attend = tensors(lessons)
    target = torch.tensor([int(review.praises) for review in lessons])
    train.set_seed(seed)
    reader = Bert(BertConfig(len(WORDS), 20, norm_first=True, num_segments=0, **SIZE))
    judge, _ = trained(SentenceVerdict(reader), batches(ids, attend, target, 0.5), 250, 2e-3, seed)
    short = [
        review
        for review in [*reviews(3000, seed=seed + 2), *exam]
        if len(review.clauses) == 1
        and set(review.words) & set(DEGREES)
        and review.clauses[0].negator is not None
    ]
    asked, right = tensors(short), torch.tensor([review.praises for review in short])
    sure = {}
    for name, hide in {"all words": (), "no negator": NEGATORS, "no degree": DEGREES}.items():
        share = praise(judge, *asked, hide)
        sure[name] = torch.where(right, share, 1 - share).mean().item()
    sentences = [
        SENTENCE,
        "The movie was not bad.",
        "The movie was bad.",
        "The movie was not actually great.",
        "The movie was never great.",
    ]
    said = {}
    for text in sentences:
        one = torch.tensor([WORDS.encode(text, add_special=True)])
        said[text] = praise(judge, one, torch.ones_like(one, dtype=torch.bool)).item()
    verdict = torch.tensor([int(review.praises) for review in exam])
    with torch.no_grad():
        right_share = train.accuracy(judge(*tensors(exam)), verdict)
    hidden = sentence_with_words_hidden(judge)
    return {"held_out": right_share, "sure": sure, "praise": said, "hidden": hidden}


def sentence_with_words_hidden(judge):
    """Return the probability of praise with nothing and with one word hidden."""
    one = torch.tensor([WORDS.encode(SENTENCE, add_special=True)])
    everywhere = torch.ones_like(one, dtype=torch.bool)
    hides = {"nothing": (), "not": ("not",), "bad": ("bad",), "great": ("great",)}
    return {name: praise(judge, one, everywhere, hide).item() for name, hide in hides.items()}


def for_the_chapter(results):
    """Keep what chapter 10 shows: each judge's exam, and its praise with words hidden."""
    about = {key: value for key, value in results.items() if key != "runs"}
    runs = [{"seed": run["seed"], **run["sentence"]} for run in results["runs"]]
    kept = [{key: run[key] for key in ("seed", "held_out", "hidden")} for run in runs]
    return {**about, "sentence": SENTENCE, "judges": kept}


def word_verdicts(lessons, seed):
    ids, attend = tensors(lessons)
    target = torch.full_like(ids, -100)
    for row, review in enumerate(lessons):
        for clause in review.clauses:
            target[row, clause.adjective + 1] = int(clause.praises)
    size = {"d_model": 32, "num_layers": 2, "num_heads": 2, "d_ff": 64}
    train.set_seed(seed)
    reader = Bert(BertConfig(len(WORDS), 20, norm_first=True, num_segments=0, **size))
    judge, _ = trained(WordVerdict(reader), batches(ids, attend, target, 0.0), 300, 3e-3, seed)
    one = torch.tensor([WORDS.encode(SENTENCE, add_special=True)])
    bad, negator = one[0].tolist().index(WORDS.id_of("bad")), 4
    with torch.no_grad():
        output = judge(ids, attend)
    every = torch.stack(reader.attention_weights(ids, attend)).transpose(1, 2)  # (N, H, B, L, L)
    rows = torch.stack(reader.attention_weights(one))[:, 0, :, bad]  # (N, H, L)
    return {
        "right": train.accuracy(output[target >= 0], target[target >= 0]),
        "bad_to_not_by_head": rows[..., negator].flatten().tolist(),
        "bad_to_largest_other": rows.index_fill(-1, torch.tensor([bad, negator]), 0).max().item(),
        "on": weights_before(every, lessons),
    }


def weights_before(every, lessons):
    """Return, for each head, an adjective's mean weight on a negator and on a degree before it."""
    on = {"negator": [], "degree": []}
    for row, review in enumerate(lessons):
        for clause in review.clauses:
            before = review.words[clause.adjective - 1]
            name = "negator" if before in NEGATORS else "degree"
            if before != "was" and (name == "negator") == (clause.negator is not None):
                place = clause.adjective + 1
                on[name].append(every[:, :, row, place, place - 1].flatten().numpy())
    return {name: np.mean(values, axis=0).tolist() for name, values in on.items()}


def one_seed(seed):
    lessons = reviews(4000, seed=seed)
    exam = reviews(1000, seed=seed + 1, held_out=True)
    return {
        "seed": seed,
        "palindromes": both_sides(seed),
        "bags": bags(lessons, exam),
        "sentence": sentence_verdicts(lessons, exam, seed),
        "words": word_verdicts(lessons, seed),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    results = {
        **circumstances(__file__),
        "sklearn": sklearn.__version__,
        "runs": [],
    }
    for seed in range(chosen.seeds):
        results["runs"].append(one_seed(seed))
        print(json.dumps(results["runs"][-1]), file=sys.stderr, flush=True)
        write(RESULTS, results)
        write(SHOWN, for_the_chapter(results))


if __name__ == "__main__":
    main()
