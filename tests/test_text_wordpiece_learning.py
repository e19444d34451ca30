"""The learnt parts are those that likelihood asks for, and counts stay right join by join."""

import math
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attncourse.text.wordpiece import basic_words
from attncourse.text.wordpiece_learning import _joined, _PartTable, train_wordpiece

TOY = " low" * 5 + " lower" * 2 + " newest" * 6 + " widest" * 3


def test_the_first_pair_is_the_one_counted_by_hand():
    # Of 79 letters, ##s and ##t occur 9 times, always together: 9 ln(9 * 79 / (9 * 9)) = 19.5.
    # ##e + ##s is as frequent, but ##e occurs 17 times: 9 ln(9 * 79 / (17 * 9)) = 13.8.
    # l + ##o: 7 ln(7 * 79 / (7 * 7)) = 17.0.
    table = _PartTable(Counter(basic_words(TOY)))
    assert table.parts.total() == len(TOY.replace(" ", "")) == 79
    assert table.best() == ("##s", "##t")


def test_byte_pairs_would_begin_otherwise():
    # e + s is as frequent as s + t, but e is also found elsewhere.
    learnt = train_wordpiece(TOY, 18, ("[UNK]",)).vocab
    assert "##st" in learnt
    assert "##es" not in learnt


def test_rare_pairs_of_rare_letters_do_not_come_first():
    # "qz" is the most surprising pair of all (its letters occur nowhere else), but it occurs twice.
    words = Counter(basic_words("the then these them " * 20 + "qz qz"))
    table = _PartTable(words)
    surprise = {(a, b): n / table.parts[a] / table.parts[b] for (a, b), n in table.pairs.items()}
    assert max(surprise, key=surprise.get) == ("q", "##z")
    assert table.best() == ("t", "##h")


@settings(deadline=None)
@given(st.text(alphabet="abAB ,", min_size=1, max_size=60), st.integers(0, 12))
def test_counts_kept_up_to_date_equal_counts_made_anew(text, joins):
    table = _PartTable(Counter(basic_words(text)))
    for _ in range(joins):
        pair = table.best()
        if pair is None:
            break
        table.join(pair)
        parts, pairs = Counter(), Counter()
        for word, times in zip(table.words, table.times, strict=True):
            for part in word:
                parts[part] += times
            for neighbours in pairwise(word):
                pairs[neighbours] += times
        assert +table.parts == parts
        assert table.pairs == pairs


def test_a_join_raises_the_likelihood_of_the_text():
    table = _PartTable(Counter(basic_words(TOY)))

    def log_likelihood():
        total = table.parts.total()
        return sum(n * math.log(n / total) for n in table.parts.values() if n)

    before = log_likelihood()
    while (pair := table.best()) is not None:
        table.join(pair)
        assert log_likelihood() > before
        before = log_likelihood()


def test_training_text_is_spelt_without_unknowns():
    pieces = train_wordpiece("Naïve 注意 networks learn; networks forget.", 60)
    assert "[UNK]" not in pieces.tokens("Naive networks learn 注意")
    assert pieces.tokens("x") == ["[UNK]"]
    assert len(set(pieces.vocab)) == len(pieces)


def test_the_vocabulary_has_the_size_asked_for_or_says_why_not():
    assert len(train_wordpiece(TOY, 20)) == 20
    with pytest.raises(ValueError, match=r"vocab_size 10 is too small: 5 special .* need 1\d"):
        train_wordpiece(TOY, 10)
    with pytest.raises(ValueError, match=r"'\[UNK\]' is not in the vocabulary"):
        train_wordpiece(TOY, 40, ("<unk>",))
    assert train_wordpiece("", 10).vocab == ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@pytest.mark.parametrize(
    ("word", "expected"),
    [("aaa", ["aa", "##a"]), ("ba", ["b", "##a"]), ("a", ["a"])],
)
def test_joins_go_left_to_right(word, expected):
    letters = [word[0], *("##" + letter for letter in word[1:])]
    assert _joined(letters, ("a", "##a"), "aa") == expected
