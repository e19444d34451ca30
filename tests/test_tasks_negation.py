"""The reviews are what they say, and no short cut gives their verdict away."""

import re

import numpy as np
import pytest

from attncourse.tasks import negation
from attncourse.tasks.negation import (
    BAD,
    DEGREES,
    GOOD,
    HELD_OUT,
    NEGATORS,
    reviews,
    tokenizer,
)


def said_by_reading(text):
    """Judge each clause of a written review by rules of our own."""
    verdicts = []
    for clause in re.split(r", it| but it", text.lower().rstrip(".")):
        words = clause.split()
        kind = words[-1] in GOOD
        verdicts.append(kind != bool(set(words) & set(NEGATORS)))
    return verdicts


@pytest.mark.parametrize("held_out", [False, True])
def test_the_labels_are_those_that_reading_gives(held_out):
    for review in reviews(500, seed=1, held_out=held_out):
        verdicts = said_by_reading(review.text)
        assert [clause.praises for clause in review.clauses] == verdicts
        assert review.praises == verdicts[-1]
        if len(verdicts) == 2:
            assert (" but " in review.text) == (verdicts[0] != verdicts[1])
        for clause in review.clauses:
            assert review.words[clause.adjective] in GOOD + BAD
            if clause.negator is not None:
                assert review.words[clause.negator] in NEGATORS
                assert 1 <= clause.adjective - clause.negator <= 2


def test_held_out_pairs_occur_in_one_kind_only():
    def found(some):
        return {pair for review in some for pair in review.negated()}

    learnt, asked = found(reviews(4000, seed=0)), found(reviews(300, seed=0, held_out=True))
    assert not learnt & set(HELD_OUT)
    assert set(HELD_OUT) <= asked
    for negator, adjective in HELD_OUT:  # the words themselves are met, each with other partners
        assert {other for first, other in learnt if first == negator} > {"weak"}
        assert {first for first, other in learnt if other == adjective} == set(NEGATORS) - {negator}
    assert all(review.negated() & set(HELD_OUT) for review in reviews(300, seed=0, held_out=True))


def test_reviews_are_different_balanced_and_the_same_for_a_seed():
    some = reviews(2000, seed=5)
    assert len({review.words for review in some}) == 2000
    assert abs(np.mean([review.praises for review in some]) - 0.5) < 0.05
    assert some == reviews(2000, seed=5)
    assert some[:50] != reviews(50, seed=6)


def test_the_place_of_the_adjective_does_not_tell_whether_it_is_negated():
    negated = {1: [], 2: []}  # by the number of words between "was" and the adjective
    for review in reviews(4000, seed=2):
        clause = review.clauses[0]
        between = clause.adjective - 3
        if between in negated:
            negated[between].append(clause.negator is not None)
    assert all(0.4 < np.mean(cases) < 0.75 for cases in negated.values())


def test_neither_the_adjective_nor_the_negator_alone_gives_the_verdict():
    last = [review.clauses[-1] for review in reviews(4000, seed=3)]
    praises = np.array([clause.praises for clause in last])
    negated = np.array([clause.negator is not None for clause in last])
    assert abs(np.mean(praises[negated]) - np.mean(praises[~negated])) < 0.1


def test_the_tokenizer_spells_every_word_with_one_token():
    pieces = tokenizer()
    for review in reviews(200, seed=4):
        assert tuple(pieces.tokens(review.text)) == review.words
    assert pieces.tokens("The movie was not bad, it was actually great.") == (
        "the movie was not bad , it was actually great .".split()
    )
    assert set(DEGREES) < set(pieces.vocab)


def test_bad_input_is_named(monkeypatch):
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        reviews(0, seed=0)
    monkeypatch.setattr(negation, "ATTEMPTS", 100)
    with pytest.raises(ValueError, match=r"only \d+ different reviews were found, 1000 were"):
        reviews(1000, seed=0)
