"""The encoder-decoder: who sees whom, writing step by step, and the mistake made on purpose."""

import pytest

torch = pytest.importorskip("torch")

from attncourse import layers, train  # noqa: E402
from attncourse.models.seq2seq import Seq2Seq, Seq2SeqConfig  # noqa: E402

CONFIG = Seq2SeqConfig(11, 8, max_source=9, max_target=6, d_model=24, num_layers=2, d_ff=32)


def fresh(seed=0, **changes):
    train.set_seed(seed)
    config = Seq2SeqConfig(**{**CONFIG.__dict__, **changes})
    return Seq2Seq(config).double().eval()


def batch(seed=1):
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(1, 11, (3, 9), generator=generator)
    source[0, 5:], source[1, 8:] = 0, 0
    return source, torch.randint(1, 8, (3, 6), generator=generator)


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


def test_what_is_not_written_yet_changes_nothing_before_it():
    model, (source, target) = fresh(), batch()
    other = target.clone()
    other[:, 3:] = (other[:, 3:] + 1) % 8
    before, after = model(source, target), model(source, other)
    assert (before[:, :3] == after[:, :3]).all()
    assert (before[:, 3:] != after[:, 3:]).any()


def test_without_the_mask_the_answer_leaks():
    model, (source, target) = fresh(causal=False), batch()
    other = target.clone()
    other[:, 3:] = (other[:, 3:] + 1) % 8
    assert (model(source, target)[:, :3] - model(source, other)[:, :3]).abs().max() > 1e-3


def test_all_at_once_is_step_by_step():
    model, (source, target) = fresh(), batch()
    together = model(source, target)
    memory = model.encode(source)
    for step in range(6):
        alone = model.decode(target[:, : step + 1], memory, source)[:, -1]
        torch.testing.assert_close(alone, together[:, step])


def test_padding_changes_nothing():
    model, (source, target) = fresh(), batch()
    short = model(source[:1, :5], target[:1])
    torch.testing.assert_close(model(source, target)[:1], short)


def test_every_source_token_reaches_every_answer():
    model, (source, target) = fresh(), batch()
    for place in range(5):
        other = source.clone()
        other[0, place] = 1 + other[0, place] % 10
        change = (model(other, target) - model(source, target))[0].abs().amax(-1)
        assert change.min() > 0
        assert change.shape == (6,)


@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
def test_the_order_of_both_sequences_counts(side):
    model, inputs = fresh(num_layers=1), list(batch())
    before = model(*inputs)[2, -1]
    inputs[side] = inputs[side].clone()
    inputs[side][2, :3] = inputs[side][2, :3].flip(0)
    assert inputs[side][2, 0] != inputs[side][2, 2]
    assert (model(*inputs)[2, -1] - before).abs().max() > 1e-3


def test_generating_takes_the_best_token_each_time():
    model, (source, _) = fresh(), batch()
    written = model.generate(source, start=1, steps=5)
    assert written.shape == (3, 5)
    fed = torch.cat([torch.ones(3, 1, dtype=torch.int64), written[:, :-1]], dim=1)
    assert (model(source, fed).argmax(-1) == written).all()


def test_weights_have_the_shapes_of_their_two_sequences():
    model, (source, target) = fresh(), batch()
    weights = model.attention_weights(source, target[:, :4])
    assert [w.shape for w in weights["encoder"]] == [(3, 4, 9, 9)] * 2
    assert [w.shape for w in weights["decoder"]] == [(3, 4, 4, 4)] * 2
    assert [w.shape for w in weights["cross"]] == [(3, 4, 4, 9)] * 2
    assert (weights["cross"][0][0, :, :, 5:] == 0).all(), "padding has weight"
    assert (weights["decoder"][1].triu(1) == 0).all(), "the future has weight"
    for kind in weights.values():
        for layer in kind:
            torch.testing.assert_close(layer.sum(-1), torch.ones_like(layer[..., 0]))


@pytest.mark.parametrize("rung", ["batched", "tiled", "strips"])
def test_every_rung_gives_the_same_scores(rung):
    model, (source, target) = fresh(), batch()
    want = model(source, target)
    torch.testing.assert_close(layers.set_rung(model, rung)(source, target), want)


def test_bad_input_is_named():
    model, (source, target) = fresh(), batch()
    with pytest.raises(ValueError, match=r"target must .* n at most 6, got \(3, 7\)"):
        model(source, torch.cat([target, target[:, :1]], dim=1))
    with pytest.raises(ValueError, match=r"source must have shape \(B, n\).* got \(9,\)"):
        model(source[0], target)
    with pytest.raises(ValueError, match="source must hold tokens 0 to 10, got 1 to 11"):
        model(source[2:].clamp(min=1).index_fill(1, torch.tensor([3]), 11), target[2:])
    with pytest.raises(ValueError, match="target must hold tokens 0 to 7, got -1 to -1"):
        model(source, torch.full_like(target, -1))
    with pytest.raises(TypeError, match=r"source must hold integers, got torch.float64"):
        model(source.double(), target)
    with pytest.raises(ValueError, match=r"target must hold at least one token.* \(3, 0\)"):
        model(source, target[:, :0])
    with pytest.raises(ValueError, match="steps must lie in 0 to 6, got 7"):
        model.generate(source, start=1, steps=7)


def test_bad_sizes_are_named():
    with pytest.raises(ValueError, match="num_layers must be at least 1, got 0"):
        Seq2SeqConfig(9, 7, 5, 4, num_layers=0)
    with pytest.raises(TypeError, match="max_source must be an integer, got float"):
        Seq2SeqConfig(9, 7, 5.0, 4)
