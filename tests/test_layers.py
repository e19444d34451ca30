"""Heads, blocks and feed-forward layers, held to torch's own and to the oracle."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from attncourse import layers, masks, positions, reference, rungs  # noqa: E402
from attncourse.decode.kv_cache import KVCache  # noqa: E402
from attncourse.layers import (  # noqa: E402
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    MultiHeadAttention,
)

D_MODEL, NUM_HEADS = 24, 4


def tokens(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(*shape, D_MODEL, generator=generator, dtype=torch.float64)


def heads(seed=0, **options):
    torch.manual_seed(seed)
    return MultiHeadAttention(D_MODEL, NUM_HEADS, **options).double().eval()


def close(got, expected, atol=1e-12):
    np.testing.assert_allclose(got.detach(), expected.detach(), rtol=0, atol=atol)


def test_many_heads_are_independent_attentions_side_by_side():
    module, x = heads(), tokens(2, 7)
    width, joined = module.head_dim, []
    for h in range(NUM_HEADS):
        rows = slice(h * width, (h + 1) * width)
        q, k, v = (
            (x @ linear.weight[rows].T + linear.bias[rows]).detach().numpy()
            for linear in (module.to_query, module.to_key, module.to_value)
        )
        joined.append(reference.attention(q, k, v))
    expected = np.concatenate(joined, -1) @ module.to_out.weight.detach().numpy().T
    close(module(x), torch.from_numpy(expected) + module.to_out.bias)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("shape", [(1, 1), (1,), (), (1, 3), (2, 1), (0, 1)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_a_single_token_is_mapped_as_many_are(dtype, shape, bias):
    torch.manual_seed(0)
    ours, theirs = layers.linear.Linear(D_MODEL, 40, bias), nn.Linear(D_MODEL, 40, bias)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(*shape, D_MODEL, dtype=dtype, requires_grad=True)
    out = ours.to(dtype)(x)
    expected = theirs.double()(x.double())
    rounding = 2.0**-7 if dtype == torch.bfloat16 else 1e-5
    assert out.shape == expected.shape
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), expected, rtol=rounding, atol=rounding)
    found = torch.autograd.grad(out.sum(), x)[0]
    wanted = torch.autograd.grad(expected.sum(), x)[0]
    torch.testing.assert_close(found, wanted.to(dtype), rtol=rounding, atol=rounding)


def test_a_single_bfloat16_token_takes_the_short_way():
    linear = layers.linear.Linear(8, 8).bfloat16()
    ways = {}
    for shape in ((1, 1, 8), (1, 2, 8)):
        x = torch.randn(shape, dtype=torch.bfloat16)
        with torch.profiler.profile() as seen, torch.no_grad():
            linear(x)
        ways[shape] = {event.key for event in seen.key_averages()}
    assert "aten::addmv" in ways[1, 1, 8]
    assert "aten::addmv" not in ways[1, 2, 8]
    with torch.autocast(
        "cpu", torch.bfloat16
    ):  # weights stay as they are, and the types may differ
        assert layers.linear.Linear(8, 8)(x[:, :1]).dtype == torch.bfloat16


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0)], ids=str)
def test_no_sequences_and_no_tokens_are_fine(shape):
    assert heads()(tokens(*shape)).shape == (*shape, D_MODEL)


def from_torch(theirs, ours):
    """Copy the weights of a torch.nn.MultiheadAttention."""
    with torch.no_grad():
        for name, part in zip(
            ("query", "key", "value"), theirs.in_proj_weight.chunk(3), strict=True
        ):
            getattr(ours, f"to_{name}").weight.copy_(part)
        for name, part in zip(("query", "key", "value"), theirs.in_proj_bias.chunk(3), strict=True):
            part.normal_()
            getattr(ours, f"to_{name}").bias.copy_(part)
        theirs.out_proj.bias.normal_()
        ours.to_out.load_state_dict(theirs.out_proj.state_dict())


@pytest.mark.parametrize("mask", ["none", "causal", "padding"])
def test_it_is_torchs_own_module_with_the_same_weights(mask):
    theirs = nn.MultiheadAttention(D_MODEL, NUM_HEADS, batch_first=True).double().eval()
    module, x = heads(), tokens(2, 7)
    from_torch(theirs, module)
    ours_mask, their_mask = {
        "none": ({}, {}),
        "causal": ({"is_causal": True}, {"attn_mask": torch.ones(7, 7).triu(1).bool()}),
        "padding": (
            {"attn_mask": masks.padding([5, 7], 7)},
            {"key_padding_mask": torch.from_numpy(~masks.padding([5, 7], 7)[:, 0, 0])},
        ),
    }[mask]
    expected, weights = theirs(x, x, x, average_attn_weights=False, **their_mask)
    close(module(x, **ours_mask), expected)
    close(module.weights(x, **ours_mask), weights)


def test_grouped_heads_are_full_heads_with_repeated_keys_and_values():
    module, full, x = heads(num_kv_heads=2), heads(1), tokens(2, 5)
    with torch.no_grad():
        for name in ("to_key", "to_value"):
            for kind in ("weight", "bias"):
                rows = getattr(getattr(module, name), kind).unflatten(0, (2, module.head_dim))
                rows = rows.repeat_interleave(2, 0).flatten(0, 1)
                getattr(getattr(full, name), kind).copy_(rows)
        full.to_query.load_state_dict(module.to_query.state_dict())
        full.to_out.load_state_dict(module.to_out.state_dict())
    close(module(x, is_causal=True), full(x, is_causal=True))
    close(module.weights(x), full.weights(x))
    assert module.to_key.weight.numel() == full.to_key.weight.numel() // 2


def test_cross_attention_reads_another_sequence_of_another_width():
    module, x = heads(d_memory=10, head_dim=5), tokens(2, 3)
    memory = torch.randn(2, 6, 10, dtype=torch.float64)
    allowed = torch.tensor([[1, 1, 0, 1, 0, 0], [1, 0, 0, 0, 0, 1]]).bool()[:, None, None]
    out, weights = (
        module(x, memory, attn_mask=allowed),
        module.weights(x, memory, attn_mask=allowed),
    )
    assert out.shape == (2, 3, D_MODEL)
    assert weights.shape == (2, NUM_HEADS, 3, 6)
    assert (weights[~allowed.expand_as(weights)] == 0).all()
    memory[0, 2] = memory[1, 1:5] = 1e3
    close(module(x, memory, attn_mask=allowed), out)


def test_values_may_differ_from_keys():
    module, x, y, z = heads(), *(tokens(1, 4, seed=seed) for seed in range(3))
    mixed = module.weights(x, y) @ module.project(x, y, z)[2]
    close(module(x, y, z), module.to_out(mixed.transpose(1, 2).flatten(2)))
    assert not torch.allclose(module(x, y, z), module(x, y))


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_rotary_turns_queries_and_keys_as_positions_does(pairing):
    turned, plain = heads(rotary=pairing, rotary_base=500.0), heads()
    q, k, v = turned.project(tokens(1, 9), start=3)
    expected = plain.project(tokens(1, 9))
    steps = np.arange(3, 12)
    close(q, positions.rotary(expected[0], steps, base=500.0, pairing=pairing))
    close(k, positions.rotary(expected[1], steps, base=500.0, pairing=pairing))
    close(v, expected[2])


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_angles_that_inference_left_behind_serve_training(pairing):
    module = heads(rotary=pairing, rotary_base=1234.0)
    with torch.inference_mode():
        module(tokens(1, 3))
    module(tokens(1, 3)).sum().backward()
    assert module.to_query.weight.grad.abs().sum() > 0


CACHED = [("auto", 1), ("auto", 2), ("batched", 4), ("tiled", 2), ("sdpa", 2), ("matmul", 1)]


@pytest.mark.parametrize("hiding", [{}, {"window_size": 3}], ids=["plain", "window"])
@pytest.mark.parametrize(("rung", "num_kv_heads"), CACHED)
def test_a_cache_gives_what_one_pass_gives(rung, num_kv_heads, hiding):
    module = heads(num_kv_heads=num_kv_heads, rotary="half", rung=rung)
    x = tokens(2, 9)
    cache = KVCache(2, num_kv_heads, module.head_dim, capacity=2, dtype=torch.float64)
    with torch.no_grad():
        expected = module(x, is_causal=True, **hiding)
        parts = [
            module(x[:, cut], cache=cache, **hiding)
            for cut in map(slice, (0, 4, 5, 6), (4, 5, 6, 9))
        ]
    close(torch.cat(parts, 1), expected)
    assert len(cache) == 9


def test_a_cache_and_a_padding_mask_work_together():
    module, x = heads(), tokens(2, 5)
    allowed = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]).bool()[:, None, None]
    cache = KVCache(2, NUM_HEADS, module.head_dim, dtype=torch.float64)
    with torch.no_grad():
        module(x[:, :4], cache=cache, attn_mask=allowed[..., :4])
        last = module(x[:, 4:], cache=cache, attn_mask=allowed)
    close(last, module(x, is_causal=True, attn_mask=allowed)[:, 4:])


def test_dropout_is_for_training_only():
    module, x = heads(dropout=0.5), tokens(1, 6)
    close(module(x), heads()(x))
    module.train()
    assert not torch.equal(module(x), module(x))
    close(module.weights(x).sum(-1), torch.ones(1, NUM_HEADS, 6))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_kv_heads": 3}, "num_kv_heads is 3, num_heads 4"),
        ({"rotary": "halves"}, r"rotary must be None or one of \('half', 'interleaved'\)"),
        ({"head_dim": 5, "rotary": "half"}, "even head_dim, got 5"),
    ],
)
def test_impossible_sizes_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(D_MODEL, NUM_HEADS, **options)


def test_tokens_of_another_shape_are_named():
    layer, x = MultiHeadAttention(8, 2), torch.zeros(2, 5, 8)
    with pytest.raises(ValueError, match=r"query must have shape .*tokens, 8\), got \(5, 8\)"):
        layer(x[0])
    with pytest.raises(ValueError, match=r"key must have shape .*tokens, 8\), got \(2, 5, 7\)"):
        layer(x, x[..., :7])
    with pytest.raises(ValueError, match=r"value must have shape .*got \(2, 5, 6\)"):
        layer(x, x, x[..., :6])


def test_a_width_that_does_not_divide_is_named():
    for name, sizes in {
        "d_model": (0, 4),
        "num_heads": (24, 0),
        "num_kv_heads": (24, 4, 0),
        "head_dim": (24, 4, None, 0),
    }.items():
        options = dict(
            zip(("d_model", "num_heads", "num_kv_heads", "head_dim"), sizes, strict=False)
        )
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            MultiHeadAttention(**options)
    with pytest.raises(TypeError, match="num_heads must be an integer, got float"):
        MultiHeadAttention(24, 2.0)
    with pytest.raises(ValueError, match="24 must be a multiple of 5, or give head_dim"):
        MultiHeadAttention(D_MODEL, 5)


@pytest.mark.parametrize(
    ("activation", "bend"),
    [
        ("relu", torch.relu),
        ("gelu", lambda x: x * torch.special.ndtr(x)),
        ("gelu_tanh", lambda x: nn.GELU(approximate="tanh")(x)),
        ("silu", lambda x: x * x.sigmoid()),
        ("swiglu", lambda x: x * x.sigmoid()),
        ("geglu", lambda x: x * torch.special.ndtr(x)),
    ],
)
def test_feed_forward_is_its_formula(activation, bend):
    layer, x = FeedForward(D_MODEL, 40, activation).double(), tokens(2, 3)
    inside = bend(layer.up(x)) if layer.gate is None else bend(layer.gate(x)) * layer.up(x)
    assert (layer.gate is None) == ("glu" not in activation)
    close(layer(x), layer.down(inside))


def test_unknown_names_list_the_known_ones():
    with pytest.raises(ValueError, match=r"activation must be one of .*'swiglu'.* got 'gelo'"):
        FeedForward(8, 8, "gelo")
    with pytest.raises(ValueError, match="norm must be 'layer' or 'rms', got 'batch'"):
        layers.make_norm("batch", 8)


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre-norm", "post-norm"])
def test_blocks_are_torchs_own_with_the_same_weights(norm_first):
    options = {"dim_feedforward": 40, "batch_first": True, "norm_first": norm_first, "dropout": 0.0}
    x, memory, allowed = tokens(2, 5), tokens(2, 7, seed=1), masks.padding([4, 7], 7)
    hide = torch.from_numpy(~allowed[:, 0, 0])
    theirs = nn.TransformerEncoderLayer(D_MODEL, NUM_HEADS, activation="gelu", **options).double()
    ours = EncoderBlock(D_MODEL, NUM_HEADS, 40, norm_first=norm_first).double()
    copy_block(theirs, ours)
    close(
        ours(memory, attn_mask=allowed).masked_fill(hide[..., None], 0),
        theirs(memory, src_key_padding_mask=hide).masked_fill(hide[..., None], 0),
    )

    theirs = nn.TransformerDecoderLayer(D_MODEL, NUM_HEADS, activation="gelu", **options).double()
    ours = DecoderBlock(D_MODEL, NUM_HEADS, 40, norm_first=norm_first).double()
    copy_block(theirs, ours)
    from_torch(theirs.multihead_attn, ours.cross_attention)
    ours.cross_norm.load_state_dict(theirs.norm2.state_dict())
    future = torch.ones(5, 5).triu(1).bool()
    expected = theirs(x, memory, tgt_mask=future, memory_key_padding_mask=hide)
    close(ours(x, memory, memory_mask=allowed), expected)


def copy_block(theirs, ours):
    """Copy what an encoder block and a decoder block have in common; norms get odd numbers."""
    norms = [module for module in theirs.modules() if isinstance(module, nn.LayerNorm)]
    for norm in norms:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    from_torch(theirs.self_attn, ours.attention)
    ours.attention_norm.load_state_dict(norms[0].state_dict())
    ours.feed_forward_norm.load_state_dict(norms[-1].state_dict())
    ours.feed_forward.up.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.down.load_state_dict(theirs.linear2.state_dict())


def test_a_decoder_block_with_a_cache_gives_what_one_pass_gives():
    torch.manual_seed(0)
    block = DecoderBlock(D_MODEL, NUM_HEADS, 40, d_memory=10, bias=False).double()
    x, memory = tokens(2, 6), torch.randn(2, 3, 10, dtype=torch.float64)
    cache = KVCache(2, NUM_HEADS, D_MODEL // NUM_HEADS, dtype=torch.float64)
    with torch.no_grad():
        steps = [block(x[:, i : i + 1], memory, cache=cache) for i in range(6)]
        close(torch.cat(steps, 1), block(x, memory))


def test_weights_of_a_model_come_in_the_order_in_which_it_attends():
    block, x, memory = DecoderBlock(D_MODEL, NUM_HEADS, 40).double(), tokens(1, 4), tokens(1, 6)
    own, cross = layers.attention_weights(block, x, memory)
    assert own.shape == (1, NUM_HEADS, 4, 4)
    assert cross.shape == (1, NUM_HEADS, 4, 6)
    assert (own.triu(1) == 0).all(), "a decoder block is causal"
    close(own, block.attention.weights(block.attention_norm(x), is_causal=True))
    assert not any(module._forward_hooks for module in block.modules()), "nothing is left behind"


def test_a_rung_is_set_everywhere_and_never_swapped():
    block = DecoderBlock(D_MODEL, NUM_HEADS, 40)
    assert layers.set_rung(block, "tiled") is block
    assert block.attention.rung == block.cross_attention.rung == "tiled"
    with pytest.raises(ValueError, match="no rung is called 'flash'"):
        layers.set_rung(block, "flash")
    with pytest.raises(ValueError, match="Linear holds no MultiHeadAttention"):
        layers.set_rung(nn.Linear(1, 1), "tiled")
    layers.set_rung(block, "loops")
    with torch.no_grad(), pytest.raises(NotImplementedError, match="'loops' does not have batch"):
        block(torch.ones(1, 2, D_MODEL), torch.ones(1, 2, D_MODEL))


@pytest.mark.parametrize("rung", [rung.name for rung in rungs.LADDER if rung.name != "loops"])
def test_every_rung_with_the_features_gives_the_same_heads(rung):
    if "triton" in rung:
        pytest.importorskip("triton")
    module = heads(num_kv_heads=2, head_dim=16).float()
    x = tokens(2, 5).float()
    with torch.no_grad():
        expected = layers.set_rung(module, "batched")(x, is_causal=True)
        close(layers.set_rung(module, rung)(x, is_causal=True), expected, atol=1e-5)
