"""The character corpus: what it cuts, what it holds out, and that nothing is lost."""

import math

import pytest

torch = pytest.importorskip("torch")

from attncourse.text import corpus  # noqa: E402


@pytest.fixture(scope="module")
def docs():
    return corpus.python_docs()


def test_a_text_survives_the_round_trip(docs):
    assert docs.decode(docs.encode(docs.text)) == docs.text
    assert docs.decode(torch.cat([docs.training, docs.held_out])) == docs.text
    assert len(docs) == len(set(docs.text)) == len(docs.alphabet)


def test_the_manual_is_long_and_plain(docs):
    assert len(docs.text) > 300_000
    assert all(character == "\n" or " " <= character <= "~" for character in docs.text)
    assert 0.09 < len(docs.held_out) / len(docs.text) < 0.11


def test_what_is_held_out_is_not_in_training(docs):
    training, held_out = docs.decode(docs.training), docs.decode(docs.held_out)
    seen = {training[i : i + 60] for i in range(len(training) - 60)}
    starts = range(0, len(held_out) - 60, 7)
    share = sum(held_out[i : i + 60] in seen for i in starts) / len(starts)
    assert share < 0.02


def test_the_target_is_the_next_character(docs):
    text = docs.text
    for held_out in (False, True):
        inputs, target = docs.batches(5, 30, held_out=held_out)(torch.Generator().manual_seed(1))
        assert inputs.shape == target.shape == (5, 30)
        assert torch.equal(inputs[:, 1:], target[:, :-1])
        for row, last in zip(inputs, target[:, -1], strict=True):
            piece = docs.decode([*row, last])
            part = docs.decode(docs.held_out if held_out else docs.training)
            assert piece in part
            assert piece in text


def test_pieces_depend_on_the_generator_alone(docs):
    make = docs.batches(4, 9)
    again = [make(torch.Generator().manual_seed(seed))[0] for seed in (3, 3, 4)]
    assert torch.equal(again[0], again[1])
    assert not torch.equal(again[0], again[2])


def test_every_piece_can_be_drawn():
    tiny = corpus.Corpus("abcdefghijklmnopqrst")  # 18 for training
    inputs, _ = tiny.batches(500, 16)(torch.Generator().manual_seed(0))
    assert set(inputs[:, 0].tolist()) == {0, 1}


def test_a_pair_table_costs_what_counting_says():
    text = "ab" * 50  # training: 45 times a -> b, 44 times b -> a
    after_a, after_b = 46 / 47, 45 / 46
    expected = -(5 * math.log(after_a) + 4 * math.log(after_b)) / 9
    assert corpus.Corpus(text).bigram_loss() == pytest.approx(expected)


def test_bad_input_is_named(docs):
    with pytest.raises(ValueError, match="é"):
        docs.encode("café")
    with pytest.raises(ValueError, match="at least 20 characters, got 3"):
        corpus.Corpus("abc")
    with pytest.raises(ValueError, match=r"must lie in 0 \.\.\. 93, got \[-1, 99\]"):
        docs.decode([5, 99, -1])
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        docs.batches(0, 4)
    with pytest.raises(TypeError, match="seq_len must be an integer, got float"):
        docs.batches(2, 2.5)
    with pytest.raises(ValueError, match="seq_len must lie between 1 and 1, got 2"):
        corpus.Corpus("ab" * 10).batches(1, 2, held_out=True)
