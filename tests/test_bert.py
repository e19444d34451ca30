"""The encoder: both directions, padding that nobody reads, and transformers' equal."""

import pytest

torch = pytest.importorskip("torch")

from model_parity import SIZES, assert_same, configuration, loaded, oracle  # noqa: E402

from attncourse import train  # noqa: E402
from attncourse.models.bert import Bert, BertConfig  # noqa: E402
from attncourse.pretrained import bert, keys  # noqa: E402

IDS = torch.randint(0, 61, (2, 9), generator=torch.Generator().manual_seed(1))
ATTEND = torch.arange(9) < torch.tensor([[9], [6]])
THEIRS = {**SIZES, "max_position_embeddings": 20}


@pytest.fixture
def model():
    train.set_seed(0)
    return Bert(BertConfig(61, 20, d_model=24, num_layers=2, pooler=True)).double().eval()


def test_every_position_sees_both_sides(model):
    first, last = IDS.clone(), IDS.clone()
    first[:, 0], last[:, -1] = (IDS[:, 0] + 1) % 61, (IDS[:, -1] + 1) % 61
    with torch.no_grad():
        same = [(model(IDS) == model(other)).all(-1).any().item() for other in (first, last)]
    assert same == [False, False], "a token changes the description of all others"


def test_padding_is_never_read(model):
    other = IDS.masked_fill(~ATTEND, 7)
    with torch.no_grad():
        full, cut = model(IDS, ATTEND), model(IDS[1:, :6])
        assert torch.equal(full[ATTEND], model(other, ATTEND)[ATTEND])
        torch.testing.assert_close(full[1:, :6], cut)
    for layer in model.attention_weights(IDS, ATTEND):
        assert layer.shape == (2, 4, 9, 9)
        assert (layer[1, ..., 6:] == 0).all()


def test_segments_head_and_pooler(model):
    segments = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 1]]).expand(2, -1)
    with torch.no_grad():
        hidden = model(IDS, None, segments)
        assert not torch.allclose(hidden, model(IDS))
        assert model.predict(IDS, None, segments).shape == (2, 9, 61)
        torch.testing.assert_close(model.pool(hidden), model.pooler(hidden[:, 0]).tanh())
    assert model.head.unembed.weight is model.embed.weight
    assert len(model.hidden_states(IDS)) == 3


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_bert_of_transformers(activation):
    config = configuration("BertConfig", **THEIRS, hidden_act=activation)
    theirs = oracle("BertForMaskedLM", config)
    ours = loaded(bert.plan, theirs)
    assert_same(ours, theirs, IDS, ours.predict)
    assert_same(ours, theirs, IDS, ours.predict, attend=ATTEND)


def test_bert_with_a_pooler_of_transformers():
    theirs = oracle("BertModel", configuration("BertConfig", **THEIRS))
    ours = loaded(bert.plan, theirs)
    assert_same(ours, theirs, IDS)
    segments = (IDS > 30).long()
    with torch.no_grad():
        expected = theirs(IDS, token_type_ids=segments)
        hidden = ours(IDS, None, segments)
        torch.testing.assert_close(hidden, expected.last_hidden_state, rtol=0, atol=1e-5)
        torch.testing.assert_close(ours.pool(hidden), expected.pooler_output, rtol=0, atol=1e-5)


def test_distilbert_of_transformers():
    sizes = {"vocab_size": 61, "dim": 24, "hidden_dim": 40, "n_layers": 3, "n_heads": 4}
    sizes |= {"max_position_embeddings": 20, "attn_implementation": "eager"}
    theirs = oracle("DistilBertForMaskedLM", configuration("DistilBertConfig", **sizes))
    ours = loaded(bert.distil_plan, theirs)
    assert_same(ours, theirs, IDS, ours.predict, attend=ATTEND)


def test_pre_norm_of_transformers():
    """RoBERTa's pre-norm variant counts its positions from 2; the rest is a BERT."""
    config = configuration("RobertaPreLayerNormConfig", **THEIRS, pad_token_id=1)
    theirs = oracle("RobertaPreLayerNormModel", config)
    ids = IDS.masked_fill(IDS == 1, 2)
    theirs.embeddings.position_embeddings.weight.data = (
        theirs.embeddings.position_embeddings.weight.data.roll(-2, 0)
    )
    ours = BertConfig(61, 20, 24, 3, 4, d_ff=40, norm_first=True, masked_head=False)
    ours = BertConfig(**{**vars(ours), "pooler": True})
    layer = {
        name.replace("attention.output.LayerNorm", "attention.LayerNorm").replace(
            "output.LayerNorm", "intermediate.LayerNorm"
        ): goes
        for name, goes in bert.LAYER.items()
    }
    plan = keys.Plan(
        make=lambda: Bert(ours),
        keys={
            **bert.EMBEDDINGS,
            "embeddings.token_type_embeddings.weight": keys.Goes("segment.weight"),
            **keys.in_layers(3, layer, "encoder.layer.{}", "blocks.{}"),
            **keys.affine("LayerNorm", "norm"),
            **keys.affine("pooler.dense", "pooler"),
        },
    )
    model = loaded(plan, theirs)
    theirs.embeddings.position_embeddings.weight.data = (
        theirs.embeddings.position_embeddings.weight.data.roll(2, 0)
    )
    assert_same(model, theirs, ids)


def test_wrong_input_is_named(model):
    with pytest.raises(TypeError, match="attend must be boolean"):
        model(IDS, ATTEND.long())
    with pytest.raises(ValueError, match=r"attend has shape \(2, 8\), ids \(2, 9\)"):
        model(IDS, ATTEND[:, :8])
    with pytest.raises(ValueError, match="the sequence has 27 tokens, max_len is 20"):
        model(IDS.repeat(1, 3))
    with pytest.raises(ValueError, match=r"ids must have shape \(B, L\)"):
        model(IDS[0])
    plain = Bert(BertConfig(61, 20, 24, 1, masked_head=False))
    with pytest.raises(ValueError, match="masked_head=True"):
        plain.predict(IDS)
    with pytest.raises(ValueError, match="pooler=True"):
        plain.pool(plain(IDS))
