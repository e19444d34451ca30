"""Each task asks what it says, is reproducible, and refuses what it cannot make."""

import pytest
import torch

from attncourse import tasks, train


def test_first_token_recall_asks_for_the_first_token():
    tokens, target = tasks.first_token_recall(300, 7, 5, generator=0)
    assert tokens.shape == (300, 7)
    assert torch.equal(target, tokens[:, 0])
    assert sorted(tokens.unique().tolist()) == [0, 1, 2, 3, 4]


def test_associative_recall_asks_for_the_value_of_a_key():
    pairs = tasks.associative_recall(200, 6, 9, generator=1)
    assert pairs.keys.shape == pairs.values.shape == (200, 6)
    assert all(len(set(row.tolist())) == 6 for row in pairs.keys)
    found = pairs.keys == pairs.query[:, None]
    assert torch.equal(found.sum(1), torch.ones(200, dtype=torch.int64))
    assert torch.equal(pairs.values[found], pairs.target)
    assert torch.equal(found.int().argmax(1), pairs.position)
    assert sorted(pairs.position.unique().tolist()) == list(range(6))


def test_values_do_not_follow_from_their_keys():
    pairs = tasks.associative_recall(200, 8, 64, generator=0)
    agree = (pairs.values == pairs.keys).float().mean().item()
    assert agree < 0.05, "1 in 64 by chance"
    repeated = tasks.associative_recall(1, 64, 64, generator=1).values
    assert len(set(repeated[0].tolist())) < 64, "values are drawn, not a permutation"


def test_reversal_asks_for_the_sequence_backwards():
    tokens, target = tasks.reversal(5, 4, generator=2)
    assert torch.equal(target, torch.stack([tokens[:, i] for i in (3, 2, 1, 0)], dim=1))
    assert not torch.equal(target, tokens)


@pytest.mark.parametrize("held_out", [False, True], ids=["seen", "held-out"])
def test_negated_reviews_follow_the_grammar(held_out):
    words, polarity, target = tasks.negated_reviews(400, held_out=held_out, generator=3)
    for row, lexicon, praise in zip(words.tolist(), polarity.tolist(), target, strict=True):
        text = [tasks.WORDS[word] for word in row if word]
        adjective = text[-1]
        assert (adjective in tasks.HELD_OUT) == held_out
        assert praise == ((adjective in tasks.GOOD) != ("not" in text))
        wanted = {True: 2, False: 0}[adjective in tasks.GOOD]
        assert lexicon[len(text) - 1] == wanted
        assert set(lexicon[: len(text) - 1] + lexicon[len(text) :]) == {1}
    negated = (words == tasks.WORDS.index("not")).any(1).float().mean()
    assert 0.4 < negated < 0.6
    assert 0.4 < target.float().mean() < 0.6


MAKERS = [
    lambda generator: tasks.first_token_recall(4, 9, generator=generator)[0],
    lambda generator: tasks.associative_recall(4, 9, generator=generator).keys,
    lambda generator: tasks.reversal(4, 9, generator=generator)[0],
    lambda generator: tasks.negated_reviews(9, generator=generator)[0],
]


@pytest.mark.parametrize("make", MAKERS, ids=["first", "pairs", "reversal", "reviews"])
def test_a_seed_repeats_and_a_generator_goes_on(make):
    assert torch.equal(make(7), make(7))
    assert not torch.equal(make(7), make(8))
    generator = torch.Generator().manual_seed(7)
    first, second = make(generator), make(generator)
    assert torch.equal(first, make(7))
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("task", "sizes", "names"),
    [
        (tasks.first_token_recall, (3, 5), ["tokens"]),
        (tasks.associative_recall, (3, 5), ["keys", "values", "query"]),
        (tasks.negated_reviews, (3,), ["words", "polarity"]),
    ],
    ids=["first", "pairs", "reviews"],
)
def test_batches_hand_over_what_a_model_may_see(task, sizes, names):
    inputs, target = tasks.batches(task, *sizes)(torch.Generator().manual_seed(4))
    same = task(*sizes, generator=4)
    inputs = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
    assert all(torch.equal(a, getattr(same, n)) for a, n in zip(inputs, names, strict=True))
    assert torch.equal(target, same.target)


def test_batches_pass_options_on():
    (words, _), _ = tasks.batches(tasks.negated_reviews, 50, held_out=True)(
        torch.Generator().manual_seed(0)
    )
    assert not (words == tasks.WORDS.index("good")).any()
    assert (words == tasks.WORDS.index("superb")).any()


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="seq_len must be at least 1, got 0"):
        tasks.first_token_recall(2, 0, generator=0)
    with pytest.raises(ValueError, match=r"9 pairs need 9 different keys.*only 8"):
        tasks.associative_recall(2, 9, 8, generator=0)
    with pytest.raises(TypeError, match=r"torch.Generator or an int, got 0\.5"):
        tasks.reversal(2, 3, generator=0.5)
    with pytest.raises(TypeError, match="got True"):
        tasks.reversal(2, 3, generator=True)


def test_two_lookups_ask_for_two_different_places():
    tokens, target = tasks.two_lookups(40, 12, 50, generator=0)
    for place in range(12):
        mirror, before = 11 - place, (place - 2) % 12
        assert mirror != before
        assert torch.equal(target[:, place, 0], tokens[:, mirror])
        assert torch.equal(target[:, place, 1], tokens[:, before])


def test_two_lookups_refuse_a_length_where_the_places_meet():
    with pytest.raises(ValueError, match=r"even.*got 7"):
        tasks.two_lookups(2, 7, generator=0)


def test_some_places_back_skips_what_has_no_answer():
    tokens, target = tasks.some_places_back(30, 9, 7, back=4, generator=0)
    assert torch.equal(target[:, 4:], tokens[:, :-4])
    assert (target[:, :4] == -100).all()
    out = torch.nn.functional.one_hot(target.clamp(min=0), 7).float() * 50
    assert train.cross_entropy(out, target) < 1e-6
    assert train.accuracy(out, target) == 1.0


def test_latest_mark_asks_for_the_marked_symbol_seen_last():
    tokens, target = tasks.latest_mark(50, 20, 6, generator=0)
    for row, answers in zip(tokens.tolist(), target.tolist(), strict=True):
        assert row[0] >= 6
        for place, answer in enumerate(answers):
            assert answer == [symbol for symbol in row[: place + 1] if symbol >= 6][-1] - 6
    assert 0.2 < (tokens[:, 1:] >= 6).float().mean() < 0.3
