"""Judge snippets of film reviews: a small encoder against a bag of words. The bag wins.

Chapter 10 reads the numbers. The snippets are inside the source archive of the PyPI package
vaderSentiment. Where they were collected from, and under
which terms, is not clear, so none of them is in this project: fetch the archive yourself, and
nothing but the shares of right answers is stored.

    pip download --no-deps --no-binary :all: vaderSentiment==3.3.2
    python benchmarks/film_snippets.py vaderSentiment-3.3.2.tar.gz

Writes attncourse/notebook/results/film_snippets.json.
"""

from __future__ import annotations

import argparse
import io
import random
import sys
import tarfile
from collections import Counter
from pathlib import Path

import sklearn
import torch
from record import circumstances, write
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from attncourse import train
from attncourse.models.bert import Bert, BertConfig
from attncourse.models.verdicts import SentenceVerdict
from attncourse.text import pad
from attncourse.text.wordpiece import SPECIAL, WordPiece, basic_words

OUTER, INNER = "hutto_ICWSM_2014.tar.gz", "movieReviewSnippets_GroundTruth.txt"
ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "attncourse/notebook/results/film_snippets.json"
LONGEST, WORDS, TESTED = 40, 6000, 1500
STEPS, LR, BATCH = 900, 2e-3, 64
SIZES = {"d_model": 64, "num_layers": 1, "num_heads": 4, "d_ff": 128, "dropout": 0.3}


def snippets(archive):
    """Return (text, praises) pairs with a clear rating, in an order that does not depend on it."""
    with tarfile.open(archive) as outer:
        packed = io.BytesIO(member(outer, OUTER))
    with tarfile.open(fileobj=packed) as inner:
        lines = member(inner, INNER).decode("latin-1").splitlines()
    rows = [line.split("\t") for line in lines if line.count("\t") == 2]
    rated = [(text, float(rating)) for _, rating, text in rows]
    clear = [(text, rating > 0) for text, rating in rated if abs(rating) >= 0.5]
    random.Random(0).shuffle(clear)
    return clear


def member(archive, ending):
    """Return the bytes of the one file whose name ends so, without unpacking anything to disk."""
    return archive.extractfile(
        next(file for file in archive.getmembers() if file.name.endswith("/" + ending))
    ).read()


def bag_of_words(training, testing):
    vectors = CountVectorizer(ngram_range=(1, 2), min_df=2)
    counts = vectors.fit_transform([text for text, _ in training])
    model = LogisticRegression(max_iter=1000, C=0.5).fit(counts, [y for _, y in training])
    return model.score(vectors.transform([text for text, _ in testing]), [y for _, y in testing])


def as_tensors(rows, tokenizer):
    ids = [tokenizer.encode(" ".join(basic_words(text)[:LONGEST])) for text, _ in rows]
    first = tokenizer.id_of("[CLS]")
    padded, attend = pad([[first, *row] for row in ids], tokenizer.id_of("[PAD]"))
    target = torch.tensor([int(praises) for _, praises in rows])
    return torch.from_numpy(padded), torch.from_numpy(attend), target


def encoder(training, testing, seed):
    counted = Counter(word for text, _ in training for word in basic_words(text)[:LONGEST])
    tokenizer = WordPiece((*SPECIAL, *(word for word, _ in counted.most_common(WORDS))))
    ids, attend, target = as_tensors(training, tokenizer)
    train.set_seed(seed)
    config = BertConfig(
        len(tokenizer), LONGEST + 1, num_segments=0, norm_first=True, masked_head=False, **SIZES
    )
    model = SentenceVerdict(Bert(config))

    def make_batch(generator):
        rows = torch.randint(len(ids), (BATCH,), generator=generator)
        return (ids[rows], attend[rows]), target[rows]

    train.fit(model, make_batch, steps=STEPS, lr=LR, seed=seed, progress=False)
    ids, attend, target = as_tensors(testing, tokenizer)
    with torch.no_grad():
        return train.accuracy(model(ids, attend), target)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archive", type=Path, help="vaderSentiment's source archive, .tar.gz")
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    if not chosen.archive.is_file():
        parser.error(f"{chosen.archive} is no file: see the head of this script for how to get it")
    torch.set_num_threads(1)
    rows = snippets(chosen.archive)
    training, testing = rows[:-TESTED], rows[-TESTED:]
    majority = max(sum(y for _, y in testing), sum(not y for _, y in testing)) / len(testing)
    results = {
        **circumstances(__file__),
        "sklearn": sklearn.__version__,
        "snippets": {"training": len(training), "testing": len(testing)},
        "encoder_settings": {**SIZES, "steps": STEPS, "lr": LR, "batch": BATCH},
        "majority": majority,
        "bag_of_words": bag_of_words(training, testing),
        "encoder": [],
    }
    print(f"bag of words {results['bag_of_words']:.3f}, majority {majority:.3f}", file=sys.stderr)
    for seed in range(chosen.seeds):
        results["encoder"].append(encoder(training, testing, seed))
        print(f"encoder, seed {seed}: {results['encoder'][-1]:.3f}", file=sys.stderr)
        write(RESULT, results)


if __name__ == "__main__":
    main()
