"""The vision transformer: the library's, number for number, and what it does by itself."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from attncourse import layers, train  # noqa: E402
from attncourse.models import vit  # noqa: E402
from attncourse.models.vit import ViT, ViTConfig, patchify, resize_positions  # noqa: E402

SIZES = {"image_size": 12, "patch_size": 4, "num_classes": 5}


def pictures(channels=3, side=12, seed=0, batch=2):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, channels, side, side, generator=generator)


def fresh(seed=0, **changes):
    train.set_seed(seed)
    return ViT(replace(ViTConfig(channels=3, **SIZES), **changes)).eval()


# The same weights in transformers' models and in ours.


def theirs(kind, activation="gelu", bias=True):
    transformers = pytest.importorskip("transformers")
    train.set_seed(1)
    config = getattr(transformers, f"{kind}Config")(
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=40,
        image_size=12,
        patch_size=4,
        num_labels=5,
        layer_norm_eps=1e-6,
        hidden_act=activation,
        qkv_bias=bias,
        attn_implementation="eager",
    )
    model = getattr(transformers, f"{kind}ForImageClassification")(config).eval()
    with torch.no_grad():  # large and asymmetric: fresh weights hide mistakes
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn_like(parameter))
    return model


def ours(model, kind):
    class_tokens = {"ViT": 1, "DeiT": 2}[kind]
    mine = fresh(d_model=24, num_heads=3, d_ff=40, num_layers=3, class_tokens=class_tokens)
    mine.load_state_dict(renamed(model.state_dict(), kind.lower()))
    return mine


NAMES = {
    "attention.q_proj": "attention.to_query",
    "attention.k_proj": "attention.to_key",
    "attention.v_proj": "attention.to_value",
    "attention.o_proj": "attention.to_out",
    "layernorm_before": "attention_norm",
    "layernorm_after": "feed_forward_norm",
    "mlp.fc1": "feed_forward.up",
    "mlp.fc2": "feed_forward.down",
}


def renamed(state, prefix):
    out = {}
    first = [state[f"{prefix}.embeddings.cls_token"][0]]
    if prefix == "deit":
        first.append(state["deit.embeddings.distillation_token"][0])
    kernel = state[f"{prefix}.embeddings.patch_embeddings.projection.weight"]
    out["class_token"] = torch.cat(first)
    out["position"] = state[f"{prefix}.embeddings.position_embeddings"][0]
    out["embed.weight"] = kernel.flatten(1)
    out["embed.bias"] = state[f"{prefix}.embeddings.patch_embeddings.projection.bias"]
    for end in ("weight", "bias"):
        out[f"norm.{end}"] = state[f"{prefix}.layernorm.{end}"]
        out[f"answer.{end}"] = state[f"classifier.{end}"]
    for name, value in state.items():
        if name.startswith(f"{prefix}.layers."):
            name = name.replace(f"{prefix}.layers.", "blocks.")
            for old, new in NAMES.items():
                name = name.replace(old, new)
            out[name] = value
    return out


@pytest.mark.parametrize("rung", ["sdpa", "batched", "tiled"])
@pytest.mark.parametrize("kind", ["ViT", "DeiT"])
def test_it_is_the_library_s_model(kind, rung):
    model = theirs(kind)
    mine = layers.set_rung(ours(model, kind), rung)
    x = pictures()
    with torch.no_grad():
        want = model(x, output_hidden_states=True, output_attentions=True)
        states, logits, weights = mine.hidden_states(x), mine(x), mine.attention_weights(x)
    close = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(logits, want.logits, **close)
    assert len(weights) == len(want.attentions) == 3
    for got, expected in zip(weights, want.attentions, strict=True):
        torch.testing.assert_close(got, expected, **close)
    for got, expected in zip(states, want.hidden_states, strict=True):
        torch.testing.assert_close(got, expected, **close)


@pytest.mark.parametrize("kind", ["ViT", "DeiT"])
def test_another_picture_size_is_the_library_s_interpolation(kind):
    model = theirs(kind)
    larger = ours(model, kind).at_size(20)
    x = pictures(side=20)
    with torch.no_grad():
        want = model(x, interpolate_pos_encoding=True).logits
        torch.testing.assert_close(larger(x), want, rtol=1e-5, atol=1e-5)


# What it does by itself.


def test_a_patch_embedding_is_a_convolution_with_that_stride():
    model, x = fresh(), pictures()
    kernel = model.embed.weight.view(-1, 3, 4, 4)
    conv = torch.nn.functional.conv2d(x, kernel, model.embed.bias, stride=4)
    got = model.embed(patchify(x, 4))
    torch.testing.assert_close(got, conv.flatten(2).mT, rtol=1e-5, atol=1e-5)


def test_patches_come_row_by_row():
    x = pictures(side=8)
    patches = patchify(x, 4).view(2, 2, 2, 3, 4, 4)
    for row, column in np.ndindex(2, 2):
        block = x[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
        torch.testing.assert_close(patches[:, row, column], block)


def shuffled(x, seed=5):
    """Exchange the patches of pictures."""
    order = torch.randperm(9, generator=torch.Generator().manual_seed(seed))
    patches = patchify(x, 4)[:, order].view(-1, 3, 3, 3, 4, 4)
    return patches.permute(0, 3, 1, 4, 2, 5).reshape(x.shape)


@pytest.mark.parametrize("pool", ["class", "mean"])
def test_without_positions_a_picture_is_a_bag_of_patches(pool):
    x = pictures()
    with torch.no_grad():
        bag, placed = fresh(pool=pool, use_positions=False), fresh(pool=pool)
        torch.testing.assert_close(bag(shuffled(x)), bag(x), rtol=1e-4, atol=1e-5)
        assert (placed(shuffled(x)) - placed(x)).abs().max() > 1e-2
    assert not bag.position.requires_grad


def test_mean_pooling_leaves_class_tokens_out():
    model, x = fresh(pool="mean", class_tokens=1), pictures()
    with torch.no_grad():
        states = model.norm(model.hidden_states(x)[-1])
        torch.testing.assert_close(model(x), model.answer(states[:, 1:].mean(1)))
        none = fresh(pool="mean", class_tokens=0)
        assert none.hidden_states(x)[0].shape == (2, 9, 48)
        assert none(x).shape == (2, 5)


def test_positions_of_the_same_grid_stay_and_of_a_flat_one_too():
    positions = pictures(side=5, channels=1, batch=1)[0, 0]  # 5 rows of width 5: one class token
    torch.testing.assert_close(resize_positions(positions, 2), positions)
    flat = torch.ones(1 + 9, 3)
    torch.testing.assert_close(resize_positions(flat, 7), torch.ones(1 + 49, 3))


def test_positions_are_stretched_in_two_dimensions():
    down = torch.arange(4.0).repeat_interleave(4)[:, None]  # a 4 x 4 grid, value = row
    grown = resize_positions(down, 8, class_tokens=0).view(8, 8)
    assert (grown.diff(dim=0) > 0)[1:-1].all()
    torch.testing.assert_close(grown, grown[:, :1].expand(8, 8))


def test_weights_are_shares():
    weights = fresh().attention_weights(pictures())
    assert [w.shape for w in weights] == [(2, 4, 10, 10)] * 2
    for layer in weights:
        torch.testing.assert_close(layer.sum(-1), torch.ones(2, 4, 10))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="image_size is 10, patch_size 4; 10 must be a multiple"):
        ViTConfig(image_size=10, patch_size=4)
    with pytest.raises(ValueError, match=r"pool must be one of .* got 'max'"):
        ViTConfig(pool="max")
    with pytest.raises(ValueError, match="class_tokens is 0"):
        ViTConfig(class_tokens=0)
    with pytest.raises(ValueError, match=r"\(B, 3, 12, 12\), got \(2, 1, 12, 12\)"):
        fresh()(pictures(channels=1))
    with pytest.raises(ValueError, match=r"multiples of 5, got \(2, 3, 12, 12\)"):
        vit.patchify(pictures(), 5)
    with pytest.raises(ValueError, match="8 positions of patches form no square grid"):
        resize_positions(torch.zeros(9, 2), 4)
    with pytest.raises(ValueError, match="0 positions of patches form no square grid"):
        resize_positions(torch.zeros(1, 2), 4)
    with pytest.raises(ValueError, match="grid must be at least 1, got 0"):
        resize_positions(torch.zeros(5, 2), 0)
    with pytest.raises(ValueError, match="patch_size must be at least 1, got 0"):
        ViTConfig(patch_size=0)
    with pytest.raises(ValueError, match="size must be at least 1, got -2"):
        vit.patchify(pictures(), -2)
    with pytest.raises(TypeError, match=r"floating-point numbers, got torch.uint8"):
        fresh()(pictures().byte())
    with pytest.raises(ValueError, match="at least one picture, got none"):
        fresh()(pictures()[:0])
