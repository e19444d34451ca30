"""Trained weights in our models: transformers' numbers, from disk and from installed packages."""

import os
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from model_parity import SIZES, assert_same, configuration, oracle, smollm2_oracle  # noqa: E402

from attncourse import layers, pretrained  # noqa: E402
from attncourse.models.generate import generate  # noqa: E402
from attncourse.pretrained.loading import locate  # noqa: E402

IDS = torch.randint(0, 61, (2, 9), generator=torch.Generator().manual_seed(1))
SENTENCE = "The movie was not bad, it was actually great."
PROMPT = "The best thing about AI is its"
NAMED = {"vocab_size": 61, "bos_token_id": 0, "eos_token_id": 0, "attn_implementation": "eager"}
GPT2 = {**NAMED, "n_positions": 20, "n_embd": 24, "n_layer": 3, "n_head": 4}
TEXTS = {**SIZES, "max_position_embeddings": 20}
VIT = {**SIZES, "image_size": 12, "patch_size": 4, "num_channels": 3, "num_labels": 5}
del VIT["vocab_size"]


def needs(name):
    """Skip without a package of weights; in continuous integration, fail."""
    if not pretrained.available(name):
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed: .ci/run installs it")
        pytest.skip(f"{name} is not installed")


def saved(folder, name, config, shard="5GB"):
    """Save a transformers model with random weights, as the hub has it."""
    theirs = oracle(name, config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.save_pretrained(folder, max_shard_size=shard)
    return theirs


TEXT_MODELS = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2),
    "gpt2-untied": ("GPT2LMHeadModel", "GPT2Config", {**GPT2, "tie_word_embeddings": False}),
    "bert": ("BertModel", "BertConfig", TEXTS),
    "gpt2-style": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {**GPT2, "layer_norm_epsilon": 0.01, "activation_function": "gelu"},
    ),
    "bert-style": (
        "BertModel",
        "BertConfig",
        {**TEXTS, "layer_norm_eps": 0.01, "hidden_act": "gelu_new"},
    ),
    "llama-style": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {**TEXTS, "rms_norm_eps": 0.01, "head_dim": 8},
    ),
    "bert-masked": ("BertForMaskedLM", "BertConfig", TEXTS),
    "bert-two-heads": ("BertForPreTraining", "BertConfig", TEXTS),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**TEXTS, "num_key_value_heads": 2}),
    "llama-tied": ("LlamaForCausalLM", "LlamaConfig", {**TEXTS, "tie_word_embeddings": True}),
    "llama-theta": ("LlamaForCausalLM", "LlamaConfig", {**TEXTS, "rope_theta": 300.0}),
}


@pytest.mark.parametrize("kind", TEXT_MODELS)
def test_text_models_from_disk(tmp_path, kind):
    name, config, settings = TEXT_MODELS[kind]
    theirs = saved(tmp_path, name, configuration(config, **settings), shard="5KB")
    model, tokenizer = pretrained.load(tmp_path)
    assert tokenizer is None
    assert len(list(tmp_path.glob("*.safetensors"))) > 1, "several shards"
    if kind == "bert-two-heads":
        with torch.no_grad():
            expected = theirs(IDS).prediction_logits
            torch.testing.assert_close(model.predict(IDS), expected, rtol=0, atol=1e-5)
        return
    assert_same(model, theirs, IDS, model.predict if kind == "bert-masked" else None)


@pytest.mark.parametrize("kind", ["gpt2", "bert", "llama"])
@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([[1, 2]], TypeError, r"ids must be a tensor of shape \(B, L\), got list"),
        (np.array([[1, 2]]), TypeError, r"a tensor of shape \(B, L\), got ndarray"),
        (torch.tensor([1, 2]), ValueError, r"must have shape \(B, L\), got \(2,\)"),
        (torch.ones(1, 2), TypeError, r"ids must hold integers, got torch.float32"),
        (torch.ones(1, 2).bool(), TypeError, r"ids must hold integers, got torch.bool"),
        (torch.tensor([[1, 61]]), ValueError, "must hold tokens 0 to 60, got 1 to 61"),
        (torch.tensor([[-1, 6]]), ValueError, "must hold tokens 0 to 60, got -1 to 6"),
        (torch.ones(0, 2).long(), ValueError, r"at least one token, got shape \(0, 2\)"),
        (torch.ones(2, 0).long(), ValueError, r"at least one token, got shape \(2, 0\)"),
        (torch.ones(1, 21).long(), ValueError, "sequence has 21 tokens, max_len is 20"),
    ],
    ids=["list", "array", "flat", "float", "bool", "high", "low", "no-rows", "no-tokens", "long"],
)
def test_ids_that_are_none_are_named(random_models, kind, ids, error, message):
    with pytest.raises(error, match=message):
        random_models[kind](ids)


@pytest.fixture(scope="module")
def random_models():
    from attncourse.models.bert import Bert, BertConfig
    from attncourse.models.gpt import GPT, GPTConfig

    sizes = {"d_model": 24, "num_layers": 1, "num_heads": 4}
    return {
        "gpt2": GPT(GPTConfig(61, 20, **sizes)),
        "llama": GPT(GPTConfig.llama(61, 20, **sizes)),
        "bert": Bert(BertConfig(61, 20, **sizes)),
    }


VISION_MODELS = {
    "vit": ("ViTForImageClassification", "ViTConfig"),
    "deit": ("DeiTForImageClassification", "DeiTConfig"),
    "deit-two-answers": ("DeiTForImageClassificationWithTeacher", "DeiTConfig"),
    "vit-describing": ("ViTModel", "ViTConfig"),
    "vit-style": ("ViTForImageClassification", "ViTConfig", {"layer_norm_eps": 0.01}),
}


@pytest.mark.parametrize("kind", VISION_MODELS)
def test_vision_models_from_disk(tmp_path, kind):
    name, config, *style = VISION_MODELS[kind]
    theirs = saved(tmp_path, name, configuration(config, **VIT, **(style[0] if style else {})))
    model, reader = pretrained.load(tmp_path)
    picture = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    pictures = torch.cat([reader.encode(picture), reader.encode(picture[::-1])])
    with torch.no_grad():
        out = theirs(pictures, output_hidden_states=True, output_attentions=True)
        states, weights, answer = (
            model.hidden_states(pictures),
            model.attention_weights(pictures),
            model(pictures),
        )
    expected = out.logits if hasattr(out, "logits") else out.last_hidden_state[:, 0]
    assert expected.shape == answer.shape
    torch.testing.assert_close(answer, expected, rtol=0, atol=1e-5)
    for got, wanted in zip(weights, out.attentions, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-5)
    for got, wanted in zip(states[:-1], out.hidden_states[:-1], strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def minilm():
    needs("minilm")
    return pretrained.load("minilm")


def test_minilm_is_transformers_minilm(minilm):
    model, tokenizer = minilm
    transformers = pytest.importorskip("transformers")
    theirs = transformers.BertModel.from_pretrained(locate("minilm"), attn_implementation="eager")
    ids = torch.tensor([tokenizer.encode(SENTENCE)])
    assert_same(model, theirs.eval(), ids)
    with torch.no_grad():
        expected = theirs(ids).pooler_output
        torch.testing.assert_close(model.pool(model(ids)), expected, rtol=1e-5, atol=1e-5)
    assert [tuple(layer.shape) for layer in model.attention_weights(ids)] == [(1, 12, 13, 13)] * 6


def test_minilm_on_every_torch_rung(minilm):
    model, tokenizer = minilm
    ids = torch.tensor([tokenizer.encode(SENTENCE)])
    with torch.no_grad():
        expected = model(ids)
        for rung in ("matmul", "by_hand", "batched", "strips", "tiled", "recompute", "sdpa"):
            got = layers.set_rung(model, rung)(ids)
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)
    layers.set_rung(model, "auto")


def test_minilm_finds_the_sentence_of_the_same_meaning(minilm):
    model, tokenizer = minilm
    texts = ["A man is eating food.", "Someone has a meal.", "The stock market fell today."]
    with torch.no_grad():
        means = torch.stack([model(torch.tensor([tokenizer.encode(t)]))[0].mean(0) for t in texts])
    near, far = torch.nn.functional.cosine_similarity(means[:1], means[1:]).tolist()
    assert near > far + 0.3


@pytest.fixture(scope="module")
def smollm2():
    needs("smollm2")
    return pretrained.load("smollm2")


@pytest.mark.slow
def test_smollm2_is_transformers_llama(smollm2):
    from attncourse.pretrained.quantised import read_gguf

    model, tokenizer = smollm2
    found = read_gguf(locate("smollm2"))
    theirs = smollm2_oracle(found.tensors, found.settings)
    ids = torch.tensor([tokenizer.encode(PROMPT)])
    with torch.no_grad():
        out = theirs(ids, output_hidden_states=True, output_attentions=True)
        logits, states = model(ids), model.hidden_states(ids)
        for got, expected in zip(states[:-1], out.hidden_states[:-1], strict=True):
            scale = expected.abs().max().item()
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-5 * scale)
        scale = out.logits.abs().max().item()
        torch.testing.assert_close(logits, out.logits, rtol=0, atol=1e-5 * scale)
        for got, expected in zip(model.attention_weights(ids), out.attentions, strict=True):
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)
        expected = theirs.generate(ids, max_new_tokens=24, do_sample=False, pad_token_id=2)
    cached = generate(model, ids, 24, temperature=0)
    assert tokenizer.decode(cached[0]) == tokenizer.decode(expected[0])
    assert torch.equal(cached, generate(model, ids, 24, temperature=0, use_cache=False))


@pytest.mark.slow
def test_smollm2_continues_the_sources_sentence(smollm2):
    model, tokenizer = smollm2
    with torch.no_grad():
        logits = model(torch.tensor([tokenizer.encode(PROMPT)]), last_only=True)
    shares, best = logits[0, -1].softmax(-1).topk(2)
    assert [tokenizer.decode([number]) for number in best] == [" ability", " potential"]
    assert shares.tolist() == pytest.approx([0.425, 0.279], abs=0.01)


@pytest.mark.slow
def test_smollm2_with_a_cache_gives_the_logits_of_one_pass(smollm2):
    model, tokenizer = smollm2
    ids = torch.tensor([tokenizer.encode(PROMPT + " ability to learn from 2024 on.")])
    cache = model.new_cache()
    with torch.no_grad():
        parts = [model(part, cache) for part in ids.split((5, 1, 3, 1, ids.shape[1] - 10), dim=1)]
        expected = model(ids)
    scale = expected.abs().max().item()
    torch.testing.assert_close(torch.cat(parts, 1), expected, rtol=0, atol=1e-5 * scale)
