"""A Transformer with its attention as an argument: what is in it, and that the argument is used."""

import pytest
import torch
from torch import nn

from attncourse import attention
from attncourse.models.mixer import Mixer, MixerBlock, Patches
from attncourse.variants import polynomial


def make(attend=attention, **options):
    torch.manual_seed(0)
    sizes = {"seq_len": 6, "num_answers": 5, "d_model": 8, "num_heads": 2}
    return Mixer(attend, nn.Embedding(7, 8), **sizes | options)


TOKENS = torch.tensor([[0, 3, 6, 2, 2, 1], [5, 5, 0, 1, 4, 3]])


def test_a_block_is_the_formula_written_out():
    torch.manual_seed(0)
    block, x = MixerBlock(attention, 8, 2).double(), torch.randn(2, 5, 8).double()
    q, k, v = (block.norm(x) @ block.project.weight.T + block.project.bias).split(8, dim=-1)
    heads = []
    for h in (slice(0, 4), slice(4, 8)):
        weights = (q[..., h] @ k[..., h].mT / 2).softmax(-1)
        heads.append(weights @ v[..., h])
    middle = x + block.join(torch.cat(heads, dim=-1))
    expected = middle + block.think(block.thinking_norm(middle))
    torch.testing.assert_close(block(x), expected)


@pytest.mark.parametrize("read", ["mean", "last", "each"])
def test_what_is_read(read):
    model = make(read=read)
    states = model.norm(model.blocks(model.embed(TOKENS) + model.places))
    wanted = {"mean": states.mean(1), "last": states[:, -1], "each": states}[read]
    torch.testing.assert_close(model(TOKENS), model.answer(wanted))


def test_only_the_attention_differs():
    softmax, cubic = make(), make(polynomial.attention)
    for a, b in zip(softmax.parameters(), cubic.parameters(), strict=True):
        assert torch.equal(a, b)
    assert (softmax(TOKENS) - cubic(TOKENS)).abs().max() > 1e-3
    calls = []

    def spy(*qkv):
        calls.append([tuple(x.shape) for x in qkv])
        return attention(*qkv)

    torch.testing.assert_close(make(spy, depth=3)(TOKENS), make(depth=3)(TOKENS))
    assert calls == [[(2, 2, 6, 4)] * 3] * 3


def test_without_norms_sizes_get_through():
    bare = make(normalise=False)
    assert not [m for m in bare.modules() if isinstance(m, nn.LayerNorm)]
    assert len([m for m in make().modules() if isinstance(m, nn.LayerNorm)]) == 5
    before = bare(TOKENS)
    with torch.no_grad():
        bare.embed.weight.mul_(100)
    assert bare(TOKENS).abs().max() > 10 * before.abs().max()


def test_queries_start_with_variance_one():
    torch.manual_seed(1)
    heads = MixerBlock(attention, 64, 4).heads(torch.randn(50, 20, 64))
    assert heads.shape == (3, 50, 4, 20, 16)
    assert 0.9 < heads.std() < 1.1


def test_patches_are_squares_in_reading_order():
    patches = Patches(2, 4)
    with torch.no_grad():
        patches.map.weight.copy_(torch.eye(4))
        patches.map.bias.zero_()
    picture = torch.arange(16.0).reshape(1, 1, 4, 4)
    expected = [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    assert patches(picture)[0].tolist() == expected


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="multiple of 3 heads"):
        make(num_heads=3)
    with pytest.raises(ValueError, match=r"read must be one of .* got 'first'"):
        make(read="first")
    with pytest.raises(ValueError, match=r"shape \(5, 8\), wanted .* \(6, 8\)"):
        make()(TOKENS[:, :5])


@pytest.mark.parametrize("name", ["num_heads", "depth", "seq_len", "num_answers"])
def test_counts_start_at_one(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        make(**{name: 0})
    with pytest.raises(TypeError, match=f"{name} must be an integer, got float"):
        make(**{name: 2.0})


@pytest.mark.parametrize("shape", [(1, 3, 4, 4), (1, 4, 4), (1, 1, 4, 5), (1, 1, 3, 4)], ids=str)
def test_patches_drop_no_pixel(shape):
    with pytest.raises(ValueError, match=r"both sides multiples of 2; got shape"):
        Patches(2, 4)(torch.zeros(shape))
    with pytest.raises(ValueError, match="side must be at least 1, got 0"):
        Patches(0, 4)
