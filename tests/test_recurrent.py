"""The written-out recurrent network is PyTorch's; the readers read what they say they read."""

import pytest
import torch

from attncourse import tasks, train
from attncourse.models.recall import (
    AttentionReader,
    PairReader,
    RecurrentReader,
    make_network,
)
from attncourse.models.recurrent import ElmanCell, ElmanNetwork
from attncourse.models.sentiment import CHANNELS, BiLSTMWithAttention


def test_the_written_out_network_is_torch_rnn():
    train.set_seed(0)
    ours, theirs = ElmanNetwork(3, 5).double(), torch.nn.RNN(3, 5, batch_first=True).double()
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.cell.input_map.weight)
        theirs.weight_hh_l0.copy_(ours.cell.state_map.weight)
        theirs.bias_ih_l0.copy_(ours.cell.input_map.bias)
        theirs.bias_hh_l0.zero_()
    x = 3 * torch.randn(2, 7, 3, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x)[0], rtol=1e-12, atol=1e-14)


def test_one_step_by_hand():
    cell = ElmanCell(1, 1)
    with torch.no_grad():
        for parameter, value in zip(cell.parameters(), (2.0, -1.0, 0.5), strict=True):
            parameter.fill_(value)
    state = cell(torch.tensor([[0.7]]), torch.tensor([[0.4]]))
    assert state.item() == pytest.approx(torch.tanh(torch.tensor(2 * 0.7 - 1 + 0.5 * 0.4)).item())


def test_empty_and_wrong_sequences():
    assert ElmanNetwork(3, 5)(torch.zeros(2, 0, 3)).shape == (2, 0, 5)
    with pytest.raises(ValueError, match=r"\(B, T, d_input\), got \(7, 3\)"):
        ElmanNetwork(3, 5)(torch.zeros(7, 3))
    with pytest.raises(ValueError, match="got 'rnn'"):
        make_network("rnn", 4)


@pytest.mark.parametrize("kind", ["elman", "gru", "lstm"])
def test_a_recurrent_reader_depends_on_every_token(kind):
    train.set_seed(1)
    reader = RecurrentReader(kind, num_symbols=4, d_model=8)
    tokens = torch.tensor([[0, 1, 2, 3, 0]])
    for position in range(5):
        changed = tokens.clone()
        changed[0, position] = 2 if position != 2 else 1
        assert not torch.allclose(reader(tokens), reader(changed), rtol=0, atol=1e-7)


def test_an_attention_reader_without_positions_sees_a_bag():
    train.set_seed(2)
    tokens = torch.tensor([[3, 1, 2, 1, 0]])
    shuffled = tokens[:, [2, 0, 3, 1, 4]]
    bag = AttentionReader(5, 4, 8, use_positions=False)
    torch.testing.assert_close(bag(tokens), bag(shuffled))
    ordered = AttentionReader(5, 4, 8)
    assert not torch.allclose(ordered(tokens), ordered(shuffled))


def test_the_linear_memory_is_one_matrix_of_all_pairs():
    train.set_seed(3)
    reader = PairReader("linear", 9, 8).double()
    pairs = tasks.associative_recall(4, 6, 9, generator=0)
    x = reader.embed_key(pairs.keys) + reader.embed_value(pairs.values)
    q, k = (
        torch.where(t > 0, t + 1, t.exp())
        for t in (reader.to_query(reader.embed_key(pairs.query)[:, None]), reader.to_key(x))
    )
    out = (q @ (k.mT @ reader.to_value(x))) / (q @ k.sum(1, keepdim=True).mT)
    torch.testing.assert_close(reader(*pairs.inputs), reader.answer(out[:, 0]))


@pytest.mark.parametrize("memory", ["softmax", "linear"])
def test_attentive_memories_ignore_the_order_of_pairs(memory):
    train.set_seed(4)
    reader = PairReader(memory, 9, 8)
    pairs = tasks.associative_recall(3, 5, 9, generator=0)
    order = [3, 0, 4, 2, 1]
    torch.testing.assert_close(
        reader(pairs.keys, pairs.values, pairs.query),
        reader(pairs.keys[:, order], pairs.values[:, order], pairs.query),
    )


def test_recurrent_memory_reads_the_pairs_and_then_the_query():
    train.set_seed(4)
    reader = PairReader("elman", 9, 8)
    pairs = tasks.associative_recall(3, 5, 9, generator=0)
    state = torch.zeros(3, 8)
    for n in range(5):
        pair = reader.embed_key(pairs.keys[:, n]) + reader.embed_value(pairs.values[:, n])
        state = reader.network.cell(pair, state)
    state = reader.network.cell(reader.embed_key(pairs.query), state)
    torch.testing.assert_close(reader(*pairs.inputs), reader.answer(state))


def test_a_small_softmax_memory_learns_to_look_up():
    make = tasks.batches(tasks.associative_recall, 64, 4, 16)
    train.set_seed(0)
    softmax = PairReader("softmax", 16)
    history = train.fit(softmax, make, steps=300, lr=1e-2, seed=0, stop=0.98, device="cpu")
    assert history.stopped_at is not None


def test_padding_does_not_reach_the_judgement():
    train.set_seed(5)
    model = BiLSTMWithAttention(20, max_len=6)
    words = torch.tensor([[4, 7, 9, 11, 0, 0], [4, 7, 9, 11, 5, 6]])
    polarity = torch.tensor([[1, 1, 1, 2, 1, 1], [1, 1, 1, 2, 0, 1]])
    alone = model(words[:1], polarity[:1])
    with torch.no_grad():
        model.channels["word"].weight[0] = 100.0
    torch.testing.assert_close(model(words, polarity)[:1], alone)


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_channel_is_read_exactly_when_it_is_chosen(channel):
    train.set_seed(5)
    words, kind = torch.tensor([[4, 7, 9, 11, 0, 0]]), torch.tensor([[1, 1, 1, 2, 1, 1]])
    others = [name for name in CHANNELS if name != channel]
    reading, ignoring = BiLSTMWithAttention(20), BiLSTMWithAttention(20, channels=others)
    assert [*ignoring.channels] == others
    if channel == "position":
        before = reading(words, kind)
        with torch.no_grad():
            reading.channels["position"].weight[3] += 1.0
        assert not torch.allclose(reading(words, kind), before)
        return
    changed = {"word": (words + 1, kind), "polarity": (words, kind * 0)}[channel]
    assert not torch.allclose(reading(words, kind), reading(*changed))
    if channel == "polarity":  # other words would also move the padding
        torch.testing.assert_close(ignoring(words, kind), ignoring(*changed))


def test_attention_can_be_left_out_and_no_other_channel_is_known():
    train.set_seed(5)
    words, kind = torch.tensor([[4, 7, 9, 11, 0, 0]]), torch.tensor([[1, 1, 1, 2, 1, 1]])
    model = BiLSTMWithAttention(20)
    mixed = model(words, kind)
    model.use_attention = False
    assert not torch.allclose(model(words, kind), mixed)
    with pytest.raises(ValueError, match=r"channels must be some of .* got \('length',\)"):
        BiLSTMWithAttention(20, channels=("length",))
