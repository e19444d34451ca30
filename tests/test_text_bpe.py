"""The merges are the ones that counting by hand gives, and pieces lose no text."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attncourse.text.bpe import (
    NUM_BYTES,
    _PairTable,
    learn_merges,
    learn_merges_naively,
    merge_all,
    merge_pair,
    pieces,
)

# Sennrich et al.'s toy text: low x5, lower x2, newest x6, widest x3.
TOY = " low" * 5 + " lower" * 2 + " newest" * 6 + " widest" * 3


def test_toy_text_gives_the_merges_counted_by_hand():
    vocab = [bytes([value]) for value in range(NUM_BYTES)]
    for left, right in learn_merges(TOY, 6):
        vocab.append(vocab[left] + vocab[right])
    # e+s and s+t occur 9 times, the smaller ids win; then es+t. " l", "lo" and "ow" occur 7 times:
    # the space has the smallest id. Of " l"+o and o+w, again 7 times, o+w has the smaller ids.
    assert vocab[NUM_BYTES:] == [b"es", b"est", b" l", b"ow", b" low", b" n"]


def test_training_ends_when_no_pair_occurs_twice():
    assert learn_merges("abc", 5) == []
    assert len(learn_merges("abab", 5)) == 1
    assert learn_merges("", 5) == []


def test_merges_do_not_cross_pieces():
    merges = learn_merges("dog. dog. dog. dog.", 20)
    vocab = [bytes([value]) for value in range(NUM_BYTES)]
    for left, right in merges:
        vocab.append(vocab[left] + vocab[right])
    assert b" dog" in vocab
    assert not any(b"g." in token for token in vocab)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [([1, 2, 1, 2], [9, 9]), ([1, 1, 2, 2], [1, 9, 2]), ([2, 1], [2, 1]), ([], []), ([1], [1])],
    ids=str,
)
def test_merge_pair_goes_left_to_right(ids, expected):
    assert merge_pair(ids, (1, 2), 9) == expected


@settings(deadline=None)
@given(st.text())
def test_pieces_join_to_the_text(text):
    assert "".join(pieces(text)) == text


@settings(deadline=None)
@given(st.text(alphabet="ab é'1", max_size=80), st.integers(0, 20))
def test_the_naive_learner_learns_the_same_merges(text, num_merges):
    assert learn_merges_naively(text, num_merges) == learn_merges(text, num_merges)


@pytest.mark.parametrize("text", [TOY, "the cat sat on the mat. " * 9 + "naïve 注意 " * 5])
def test_the_naive_learner_learns_the_same_long_list(text):
    naive = learn_merges_naively(text, 60)
    assert naive == learn_merges(text, 60)
    assert len(naive) > 10


@settings(deadline=None)
@given(st.text(alphabet="ab ", min_size=1, max_size=60), st.integers(0, 12))
def test_counts_kept_up_to_date_equal_counts_made_anew(text, num_merges):
    table = _PairTable(text)
    for number, pair in enumerate(learn_merges(text, num_merges)):
        assert table.most_frequent() == pair
        table.replace(pair, NUM_BYTES + number)
        anew = Counter()
        for word, times in zip(table.words, table.times, strict=True):
            for neighbours in pairwise(word):
                anew[neighbours] += times
        assert table.counts == anew


def merged_one_by_one(ids, rank):
    """Look for the first-learnt pair again after each merge: the rule, spelt out."""
    while True:
        known = [pair for pair in pairwise(ids) if pair in rank]
        if not known:
            return ids
        pair = min(known, key=rank.get)
        ids = merge_pair(ids, pair, NUM_BYTES + rank[pair])


@settings(deadline=None)
@given(st.text(alphabet="abc ", max_size=200), st.text(alphabet="abc", max_size=60))
def test_merging_with_a_heap_is_merging_one_by_one(lesson, text):
    rank = {pair: number for number, pair in enumerate(learn_merges(lesson, 30))}
    assert merge_all(list(text.encode()), rank) == merged_one_by_one(list(text.encode()), rank)


def test_a_very_long_word_takes_few_steps():
    class Counting(dict):
        asked = 0

        def __getitem__(self, pair):
            Counting.asked += 1
            return super().__getitem__(pair)

    lesson = "abcab " * 9 + "bcbca " * 7 + "ccab " * 5
    rank = Counting({pair: number for number, pair in enumerate(learn_merges(lesson, 20))})
    word = list(b"abccbacabbcabca" * 2000)
    merged = merge_all(word, rank)
    assert len(merged) < len(word)
    assert Counting.asked < 3 * len(word)
