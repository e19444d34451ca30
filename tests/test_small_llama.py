"""The small Llama that comes with the package, and the script that trained it."""

import sys

import pytest
from built_book import ROOT

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from attncourse.models import small_llama  # noqa: E402
from attncourse.models.from_scratch import generate  # noqa: E402
from attncourse.notebook import measured  # noqa: E402

sys.path.insert(0, str(ROOT / "benchmarks"))

import small_llama as script  # noqa: E402


@pytest.fixture(scope="module")
def kept():
    return small_llama.load()


def test_the_kept_model_is_as_good_as_its_results_say(kept):
    model, tokenizer = kept
    results = measured("small_llama")
    assert sum(p.numel() for p in model.parameters()) == results["parameters"]
    assert len(tokenizer) == script.SIZES["vocab_size"]
    ids = tokenizer.encode(small_llama.held_out_text())
    loss = script.held_out_loss(model, ids)
    assert loss == pytest.approx(results["excerpt_nats_per_token"], rel=1e-4)
    assert abs(results["kept_nats_per_token"] - results["nats_per_token"]) < 0.02  # 8 bits


def test_the_weights_are_those_that_the_layer_uses(kept):
    model, tokenizer = kept
    ids = torch.tensor([tokenizer.encode(small_llama.held_out_text())[:20]])
    weights = small_llama.attention_weights(model, ids)
    assert [tuple(w.shape) for w in weights] == [(1, 5, 20, 20)] * 4
    with torch.no_grad():
        x = model.blocks[0](model.embed(ids))
        layer = model.blocks[1].attention
        read = model.blocks[1].attention_norm(x)
        values = layer.to_value(read)[:, None]  # one head of values for five of queries
        expected = layer(read)
        got = layer.to_out((weights[1] @ values).transpose(1, 2).flatten(2))
    torch.testing.assert_close(got, expected)


def test_it_is_small_and_far_better_than_pairs():
    assert small_llama._WEIGHTS.stat().st_size <= 1_500_000
    results = measured("small_llama")
    assert results["nats_per_character"] < 0.7 * results["pairs_of_characters"]
    assert results["nats_per_character"] < 0.8 * results["pairs_of_tokens_per_character"]
    losses = [loss for _, loss in results["curve"]]
    assert losses[0] > 2 * losses[-1]


def test_what_it_was_not_shown_is_not_in_what_it_learned_from():
    learned, held_out = script.parts([f"{i} alone" for i in range(60)])
    assert held_out == "7 alone\n\n27 alone\n\n47 alone"
    assert set(learned.split("\n\n")).isdisjoint(held_out.split("\n\n"))


def test_documents_are_read_without_importing_them(tmp_path):
    source = tmp_path / "module.py"
    long = "This sentence is long enough to say something of use to a reader."
    source.write_text(f'"""{long}"""\n\n\ndef f():\n    """Short."""\n    raise SystemExit\n')
    assert script.docstrings(source) == long


def test_pairs_cost_what_counting_by_hand_says():
    # After a comes b each time, and b is one of two symbols.
    certain = script.pairs_loss("ababab", "ab", smooth=0.0)
    assert certain == pytest.approx(0.0)
    alone = script.pairs_loss("ababab", "ab", smooth=1.0)
    assert alone == pytest.approx(torch.tensor(8 / 4).log().item())


@pytest.mark.slow
def test_training_saving_and_loading_with_a_tiny_budget(tmp_path, monkeypatch):
    texts = script.documents()[:40]
    model, tokenizer, held_out, found = script.train(texts, steps=16, every=8)
    assert [step for step, _ in found["curve"]] == [0, 8, 16]
    assert found["curve"][-1][1] < found["curve"][0][1] - 0.5
    assert found["nats_per_token"] == found["curve"][-1][1]
    for name in ("_WEIGHTS", "_TEXT"):
        monkeypatch.setattr(small_llama, name, tmp_path / name)
    small_llama.save(model, tokenizer, held_out)
    again, same = small_llama.load()
    assert same.merges == tokenizer.merges
    assert small_llama.held_out_text() == held_out
    for name, tensor in model.state_dict().items():
        step = tensor.abs().amax(-1, keepdim=tensor.ndim > 1) / 127
        assert (again.state_dict()[name] - tensor).abs().le(0.51 * step + 1e-12).all(), name
    ids = torch.tensor([tokenizer.encode("Return the")])
    first = generate(again, ids, 5, torch.Generator().manual_seed(0))
    assert torch.equal(first, generate(again, ids, 5, torch.Generator().manual_seed(0)))
