"""A verdict reads what it says: the first token's description, or each token's own."""

import pytest
import torch

from attncourse.models.bert import Bert, BertConfig
from attncourse.models.verdicts import SentenceVerdict, WordVerdict


@pytest.fixture
def reader():
    torch.manual_seed(0)
    return Bert(BertConfig(11, 9, d_model=16, num_layers=2, num_heads=2)).eval()


def test_a_sentence_is_judged_by_its_first_token(reader):
    ids = torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(1))
    model = SentenceVerdict(reader, num_classes=4)
    expected = reader(ids)[:, 0] @ model.judge.weight.T + model.judge.bias
    torch.testing.assert_close(model(ids), expected)
    assert model(ids).shape == (3, 4)


def test_each_word_is_judged_by_its_own_description(reader):
    ids = torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(1))
    model = WordVerdict(reader)
    expected = reader(ids)[:, 4] @ model.judge.weight.T + model.judge.bias
    torch.testing.assert_close(model(ids)[:, 4], expected)


@pytest.mark.parametrize("kind", [SentenceVerdict, WordVerdict])
def test_padding_changes_no_verdict_and_the_reader_learns_along(reader, kind):
    ids = torch.randint(1, 11, (2, 5), generator=torch.Generator().manual_seed(2))
    padded = torch.cat((ids, torch.zeros(2, 3, dtype=torch.int64)), 1)
    attend = torch.arange(8).expand(2, -1) < 5
    model = kind(reader)
    long = model(padded, attend)
    torch.testing.assert_close(long[:, :5] if kind is WordVerdict else long, model(ids))
    long.sum().backward()
    assert reader.embed.weight.grad.abs().sum() > 0
