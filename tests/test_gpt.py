"""The decoder: causal, cached, the same on every rung, and transformers' equal."""

import pytest

torch = pytest.importorskip("torch")

from model_parity import SIZES, assert_same, configuration, loaded, oracle  # noqa: E402

from attncourse import LADDER, layers, train  # noqa: E402
from attncourse.models.gpt import GPT, GPTConfig  # noqa: E402
from attncourse.pretrained import gpt2, keys, llama  # noqa: E402

IDS = torch.randint(0, 61, (2, 9), generator=torch.Generator().manual_seed(1))
STYLES = {
    "gpt2": GPTConfig(61, 20, d_model=24, num_layers=2),
    "llama": GPTConfig.llama(61, 20, d_model=24, num_layers=2, num_kv_heads=2),
    "alibi-window": GPTConfig(61, 20, 24, 2, positions="alibi", window_size=4),
    "sinusoidal": GPTConfig(61, 20, 24, 2, positions="sinusoidal", norm_first=False),
    "no-positions": GPTConfig(61, 20, 24, 2, positions="none", bias=False),
}


@pytest.fixture(params=STYLES, scope="module")
def model(request):
    train.set_seed(0)
    model = GPT(STYLES[request.param]).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def test_it_never_looks_ahead(model):
    other = IDS.clone()
    other[:, 5:] = (other[:, 5:] + 1) % 61
    with torch.no_grad():
        before, after = model(IDS), model(other)
    assert before.shape == (2, 9, 61)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


@pytest.mark.parametrize("cuts", [(1,) * 9, (4, 1, 3, 1)], ids=str)
def test_a_cache_gives_what_one_pass_gives(model, cuts):
    cache = model.new_cache(2, capacity=2)
    with torch.no_grad():
        parts = [model(part, cache) for part in IDS.split(cuts, dim=1)]
        torch.testing.assert_close(torch.cat(parts, 1), model(IDS), rtol=0, atol=1e-12)
        torch.testing.assert_close(model(IDS, last_only=True), model(IDS)[:, -1:])
    assert [len(layer) for layer in cache] == [9, 9]


def test_weights_for_looking_at(model):
    weights = model.attention_weights(IDS)
    assert [tuple(layer.shape) for layer in weights] == [(2, 4, 9, 9)] * 2
    for layer in weights:
        assert (layer.triu(1) == 0).all()
        torch.testing.assert_close(layer.sum(-1), torch.ones(2, 4, 9, dtype=torch.float64))
    window = model.config.window_size
    assert (weights[0].tril(-4) == 0).all() == (window == 4)


def test_order_matters_beyond_what_causality_tells(model):
    swapped = IDS[:, [1, 0, *range(2, 9)]]
    with torch.no_grad():
        same = torch.allclose(model(IDS)[:, -1], model(swapped)[:, -1], rtol=0, atol=1e-6)
    assert same == (model.config.window_size == 4), "two layers of 4 tokens reach 7 tokens back"


def test_the_first_pass_of_gpt2_style_is_nearly_uniform():
    train.set_seed(0)
    logits = GPT(GPTConfig(61, 20)).eval()(IDS)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), IDS.flip(0, 1).flatten())
    assert loss.item() == pytest.approx(4.11, abs=0.15), "log 61: it starts without a prejudice"


@pytest.fixture(scope="module")
def trained():
    """Return a small decoder that has learnt to count."""
    train.set_seed(0)
    model = GPT(GPTConfig.llama(16, 12, d_model=32, num_layers=2, num_heads=2, num_kv_heads=1))
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(30):
        ids = (torch.randint(16, (16, 1)) + torch.arange(12)) % 16
        logits = model(ids[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.7, "it has learnt something"
    return model.eval()


@pytest.mark.parametrize("rung", [rung.name for rung in LADDER])
def test_the_same_trained_decoder_gives_the_same_logits_on_every_rung(trained, rung):
    if "triton" in rung:
        pytest.importorskip("triton")
    ids = torch.tensor([[3, 4, 5, 6, 7], [0, 15, 9, 9, 1]])
    with torch.no_grad():
        expected = layers.set_rung(trained, "batched")(ids)
        layers.set_rung(trained, rung)
        if rung == "loops":
            with pytest.raises(NotImplementedError, match="'loops' does not have batch"):
                trained(ids)
            return
        torch.testing.assert_close(trained(ids), expected, rtol=0, atol=1e-5)
        cache = trained.new_cache(2)
        parts = [trained(part, cache) for part in ids.split((3, 1, 1), dim=1)]
        torch.testing.assert_close(torch.cat(parts, 1), expected, rtol=0, atol=1e-5)
    layers.set_rung(trained, "auto")


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("activation", ["gelu_new", "gelu", "relu"])
def test_gpt2_of_transformers(activation, tied):
    sizes = {"vocab_size": 61, "n_positions": 20, "n_embd": 24, "n_layer": 3, "n_head": 4}
    sizes |= {"bos_token_id": 0, "eos_token_id": 0, "attn_implementation": "eager"}
    config = configuration("GPT2Config", activation_function=activation, **sizes)
    config.tie_word_embeddings = tied
    theirs = oracle("GPT2LMHeadModel", config)
    ours = loaded(gpt2.plan, theirs)
    assert (ours.unembed.weight is ours.embed.weight) == tied
    assert_same(ours, theirs, IDS)


@pytest.mark.parametrize(
    ("num_kv_heads", "tied", "base"), [(4, False, 1e4), (2, True, 1e5), (1, False, 500.0)]
)
def test_llama_of_transformers(num_kv_heads, tied, base):
    config = configuration(
        "LlamaConfig",
        **SIZES,
        num_key_value_heads=num_kv_heads,
        tie_word_embeddings=tied,
        rope_theta=base,
        max_position_embeddings=20,
    )
    assert_same(loaded(llama.plan, theirs := oracle("LlamaForCausalLM", config)), theirs, IDS)


def test_interleaved_pairs_of_transformers():
    """Ernie 4.5 is a Llama whose rotary pairs lie side by side."""
    sizes = {**SIZES, "num_key_value_heads": 2, "max_position_embeddings": 20, "head_dim": 6}
    theirs = oracle("Ernie4_5ForCausalLM", configuration("Ernie4_5Config", **sizes))
    plan = llama.plan({**theirs.config.to_dict(), "hidden_act": "silu"}, theirs.state_dict())
    ours = GPTConfig.llama(
        **{**vars(llama.config(theirs.config.to_dict())), "pairing": "interleaved"}
    )
    plan = keys.Plan(**{**vars(plan), "make": lambda: GPT(ours)})
    assert_same(loaded(plan, theirs), theirs, IDS)


def test_post_norm_of_transformers():
    """The first GPT normalises after each sum, and has no norm at the end."""
    sizes = {"vocab_size": 61, "n_positions": 20, "n_embd": 24, "n_layer": 3, "n_head": 4}
    config = configuration("OpenAIGPTConfig", **sizes, attn_implementation="eager")
    theirs = oracle("OpenAIGPTLMHeadModel", config)
    ours = GPTConfig(61, 20, 24, 3, 4, norm_first=False)
    layer = {**gpt2.LAYER}
    plan = keys.Plan(
        make=lambda: GPT(ours),
        keys={
            "tokens_embed.weight": keys.Goes("embed.weight"),
            "positions_embed.weight": keys.Goes("position.weight"),
            **keys.in_layers(3, layer, "h.{}", "blocks.{}"),
        },
        prefixes=("transformer.",),
        copies={"lm_head.weight": "tokens_embed.weight"},
        unused=("position_ids", r"h\.\d+\.attn\.bias"),
    )
    assert_same(loaded(plan, theirs), theirs, IDS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positions": "absolute"}, "positions must be one of .*'rotary'.* got 'absolute'"),
        ({"pairing": "halves"}, "pairing must be one of .* got 'halves'"),
        ({"num_heads": 5}, "24 must be a multiple of 5"),
    ],
)
def test_an_impossible_configuration_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        GPT(GPTConfig(**{"vocab_size": 61, "max_len": 20, "d_model": 24, **change}))


def test_wrong_ids_are_named():
    model = GPT(GPTConfig(61, 8, 24, 1))
    with pytest.raises(ValueError, match=r"ids must have shape \(B, L\), got \(3,\)"):
        model(torch.tensor([1, 2, 3]))
    cache = model.new_cache()
    model(torch.zeros(1, 6, dtype=torch.int64), cache)
    with pytest.raises(ValueError, match="the sequence has 9 tokens, max_len is 8"):
        model(torch.zeros(1, 3, dtype=torch.int64), cache)
