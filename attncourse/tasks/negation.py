"""Short film reviews in which one word turns the verdict: a grammar with known answers.

The one idea: whether a review praises depends on an adjective, on whether a negator stands before
it, and on how two clauses are joined; none of these alone tells. So a reader that counts words
must fail where one that relates words can succeed, and the right relation is known.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from attncourse.text.wordpiece import SPECIAL, WordPiece

GOOD = tuple("good great excellent wonderful brilliant superb enjoyable fun".split())
BAD = tuple("bad terrible awful boring dull poor horrible weak".split())
THINGS = tuple("movie film plot acting script music".split())
DEGREES = tuple("really very quite so truly actually".split())
NEGATORS = ("not", "never")
HELD_OUT = (("not", "bad"), ("never", "great"), ("not", "awful"))

ATTEMPTS = 10**7

WORDS = ("the", *THINGS, "it", "was", "but", ",", ".", *NEGATORS, *DEGREES, *GOOD, *BAD)


class Clause(NamedTuple):
    """One verdict inside a review."""

    adjective: int
    """Place of the adjective among the words of the review."""
    negator: int | None
    """Place of its negator, None if it has none."""
    praises: bool
    """What the clause says, the negator taken into account."""


class Review(NamedTuple):
    """A review, and what is true of it."""

    words: tuple[str, ...]
    clauses: tuple[Clause, ...]

    @property
    def praises(self) -> bool:
        """The verdict of the review: that of its last clause."""
        return self.clauses[-1].praises

    @property
    def text(self) -> str:
        """The review as one writes it."""
        return " ".join(self.words).replace(" ,", ",").replace(" .", ".").capitalize()

    def negated(self) -> set[tuple[str, str]]:
        """Return the pairs (negator, adjective) that the review holds."""
        return {
            (self.words[clause.negator], self.words[clause.adjective])
            for clause in self.clauses
            if clause.negator is not None
        }


def reviews(count: int, *, seed: int, held_out: bool = False) -> list[Review]:
    """Make different reviews, about half of which praise.

    Parameters
    ----------
    count : int
        How many.
    seed : int
        Decides which.
    held_out : bool, default False
        True: every review holds at least one of the pairs in `HELD_OUT`, such as "not bad".
        False: none does, with or without a word between the two. A reader that learns from the
        second kind meets each of these words, but never these pairs.

    Returns
    -------
    list of Review
        One clause ("the film was not really dull ."), or two that agree ("…, it was fun .") or
        differ ("… but it was fun .").

    Raises
    ------
    ValueError
        If `count` is below 1, or larger than the number of reviews that were easy to find.

    Examples
    --------
    >>> for review in reviews(3, seed=4):
    ...     print(review.praises, review.text)
    True The plot was never very weak.
    False The acting was quite bad.
    True The movie was not quite dull.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    rng = random.Random(seed)
    found: dict[tuple[str, ...], Review] = {}
    for attempt in range(min(ATTEMPTS, 200 * count)):
        review = _review(rng, praises=attempt % 2 == 0, pair=held_out)
        if held_out == any(pair in HELD_OUT for pair in review.negated()):
            found.setdefault(review.words, review)
        if len(found) == count:
            return list(found.values())
    raise ValueError(f"only {len(found)} different reviews were found, {count} were wanted")


def tokenizer() -> WordPiece:
    """Return a WordPiece whose vocabulary is BERT's special tokens and the words of the grammar."""
    return WordPiece((*SPECIAL, *WORDS))


def _review(rng: random.Random, *, praises: bool, pair: bool) -> Review:
    """Make one review; with `pair`, its last or only clause holds a pair of `HELD_OUT`."""
    kind = rng.randrange(3)
    pairs = [p for p in HELD_OUT if (p[1] in BAD) == praises] if pair else []
    words = ["the", rng.choice(THINGS)]
    clauses: list[Clause] = []
    if kind == 0:
        _add_clause(rng, words, clauses, praises, pairs)
    else:
        where = rng.randrange(2)  # which of the two clauses may hold the pair
        first = praises if kind == 1 else not praises
        first_pairs = [p for p in HELD_OUT if (p[1] in BAD) == first] if pair else []
        _add_clause(rng, words, clauses, first, first_pairs if where == 0 else [])
        words += [",", "it"] if kind == 1 else ["but", "it"]
        _add_clause(rng, words, clauses, praises, pairs if where == 1 else [])
    return Review((*words, "."), tuple(clauses))


def _add_clause(
    rng: random.Random,
    words: list[str],
    clauses: list[Clause],
    praises: bool,
    pairs: Sequence[tuple[str, str]],
) -> None:
    """Write "was (not) (really) good", with one of the pairs if there are any.

    A clause without a negator may have two words of degree, so that the place of the adjective
    does not give the negator away.
    """
    negated = rng.random() < 0.5
    negator, adjective = rng.choice(NEGATORS), rng.choice(GOOD if praises != negated else BAD)
    if pairs:
        negated, (negator, adjective) = True, rng.choice(pairs)
    words.append("was")
    place = len(words) if negated else None
    first = [negator] if negated else [rng.choice(DEGREES)] * (rng.random() < 0.5)
    words += [*first, *[rng.choice(DEGREES)] * (rng.random() < 0.4), adjective]
    clauses.append(Clause(len(words) - 1, place, praises))
