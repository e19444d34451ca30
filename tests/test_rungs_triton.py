"""The Triton rungs, in the interpreter, against the oracle and against autograd."""

from importlib.util import find_spec

import numpy as np
import pytest

if find_spec("triton") is None:
    pytest.skip("triton is not installed (Linux only): attncourse[triton]", allow_module_level=True)
torch = pytest.importorskip("torch")

from attncourse import attention, dropout, reference  # noqa: E402
from attncourse.call import Call  # noqa: E402
from attncourse.kernels import blocks, runtime  # noqa: E402
from attncourse.rungs import by_name  # noqa: E402

pytestmark = pytest.mark.ladder
DEVICE = "cpu" if runtime.INTERPRETED else "cuda"

FEATURES = {
    "plain": {},
    "causal": {"is_causal": True},
    "bottom-right": {"is_causal": True, "causal_align": "bottom_right"},
    "window": {"is_causal": True, "window_size": 7},
    "window-bottom-right": {
        "is_causal": True,
        "window_size": 21,
        "causal_align": "bottom_right",
    },
    "softcap": {"softcap": 2.0},
    "alibi": {"alibi_slopes": True, "causal_align": "bottom_right"},
    "bool-mask": {"attn_mask": "bool"},
    "float-mask": {"attn_mask": "float"},
    "dropout": {"dropout_p": 0.3, "dropout_seed": 2**63 + 11},
    "everything": {
        "is_causal": True,
        "window_size": 30,
        "causal_align": "bottom_right",
        "softcap": 4.0,
        "alibi_slopes": True,
        "attn_mask": "float",
        "dropout_p": 0.2,
        "dropout_seed": 5,
        "scale": 0.9,
    },
}
SHAPES = [(1, 1, 3, 3), (1, 17, 8, 1), (17, 1, 24, 40), (33, 48, 5, 16), (48, 33, 16, 7)]


def make(seed, seq_len_q, seq_len_kv, width, width_v, dtype=None, heads=2, kv_heads=1):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        drawn = 1.5 * torch.randn(*shape, generator=generator, dtype=torch.float64)
        return drawn.to(dtype or torch.float64).to(DEVICE)

    return (
        draw(1, heads, seq_len_q, width),
        draw(1, kv_heads, seq_len_kv, width),
        draw(1, kv_heads, seq_len_kv, width_v),
    )


def options_for(features, query, key, seed=1):
    """Fill in the masks and slopes that a set of features names."""
    generator = torch.Generator().manual_seed(seed)
    options = dict(features)
    heads, seq_len_q, seq_len_kv = *query.shape[1:3], key.shape[2]
    if options.get("alibi_slopes"):
        options["alibi_slopes"] = torch.rand(heads, generator=generator).double().to(DEVICE)
    if options.get("attn_mask") == "bool":
        drawn = torch.rand(heads, seq_len_q, seq_len_kv, generator=generator) > 0.5
        drawn[..., : seq_len_kv // 2] &= torch.arange(seq_len_q)[:, None] % 4 > 0
        options["attn_mask"] = drawn.to(DEVICE)
    if options.get("attn_mask") == "float":
        drawn = torch.randn(seq_len_q, seq_len_kv, generator=generator).double()
        drawn[::5] = -torch.inf
        drawn[1::3, ::2] = -torch.inf
        options["attn_mask"] = drawn.to(DEVICE)
    return options


def to_numpy(tensor):
    return tensor.detach().double().cpu().numpy()


def assert_is_oracle(rung, query, key, value, rtol, **options):
    tensors = query, key, value
    before = [tensor.clone() for tensor in tensors]
    out, lse = attention(*tensors, enable_gqa=True, return_lse=True, rung=rung, **options)
    expected, expected_lse = reference.attention(*tensors, return_lse=True, **options)
    assert out.dtype == query.dtype
    np.testing.assert_allclose(to_numpy(out), expected, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(to_numpy(lse), expected_lse, rtol=rtol, atol=rtol)
    for tensor, old in zip(tensors, before, strict=True):
        assert torch.equal(tensor, old), "an input was modified"
    return out


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
def test_every_feature_meets_the_oracle(features, shape):
    query, key, value = make(0, *shape)
    with blocks.use(16, 16):
        assert_is_oracle("triton", query, key, value, 1e-12, **options_for(features, query, key))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("features", ["plain", "causal", "bottom-right"])
def test_the_short_kernel_meets_the_oracle(features, shape):
    query, key, value = make(0, *shape)
    with blocks.use(16, 16):
        assert_is_oracle("triton_forward", query, key, value, 1e-12, **FEATURES[features])


@pytest.mark.parametrize("tile", [(16, 32), (32, 16), (64, 64)], ids=str)
@pytest.mark.parametrize("features", ["window", "window-bottom-right", "everything"])
def test_any_tile_gives_the_same(features, tile):
    query, key, value = make(3, 41, 70, 8, 8)
    with blocks.use(*tile):
        assert_is_oracle(
            "triton", query, key, value, 1e-12, **options_for(FEATURES[features], query, key)
        )


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
def test_gradients_are_those_of_autograd(features):
    query, key, value = make(4, 37, 50, 8, 5, heads=4, kv_heads=2)
    options = options_for(features, query, key)
    learned = [
        name
        for name in ("attn_mask", "alibi_slopes")
        if options.get(name) is not None and options[name].dtype == torch.float64
    ]
    generator = torch.Generator().manual_seed(9)

    def gradients(rung):
        leaves = [x.clone().requires_grad_() for x in (query, key, value)]
        extra = {name: options[name].clone().requires_grad_() for name in learned}
        call = {**options, **extra, "enable_gqa": True, "return_lse": True, "rung": rung}
        out, lse = attention(*leaves, **call)
        generator.manual_seed(9)
        dout = torch.randn(out.shape, generator=generator, dtype=out.dtype).to(DEVICE)
        dlse = torch.randn(lse.shape, generator=generator, dtype=out.dtype).to(DEVICE)
        total = (out * dout).sum() + (lse * dlse)[lse.isfinite()].sum()
        return torch.autograd.grad(total, [*leaves, *extra.values()])

    with blocks.use(16, 32):
        found = gradients("triton")
    for ours, theirs in zip(found, gradients("batched"), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("features", ["plain", "bottom-right", "everything"])
def test_gradients_are_those_of_finite_differences(features):
    query, key, value = (x.requires_grad_() for x in make(5, 5, 7, 3, 2))
    options = options_for(FEATURES[features], query, key)

    def call(query, key, value):
        return attention(query, key, value, enable_gqa=True, rung="triton", **options)

    torch.autograd.gradcheck(call, (query, key, value), fast_mode=features != "plain")


def test_a_query_that_sees_nothing():
    query, key, value = (x.requires_grad_() for x in make(6, 40, 20, 4, 4))
    options = {"is_causal": True, "causal_align": "bottom_right", "enable_gqa": True}
    with blocks.use(16, 16):
        out, lse = attention(query, key, value, return_lse=True, rung="triton", **options)
        gradients = torch.autograd.grad(out.square().sum(), (query, key, value))
    assert (out[:, :, :20] == 0).all()
    assert (lse[:, :, :20] == -torch.inf).all()
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (gradients[0][:, :, :20] == 0).all()


@pytest.mark.parametrize("seq_len_q", [0, 3])
@pytest.mark.parametrize("rung", ["triton", "triton_forward"])
def test_no_keys_and_no_queries(rung, seq_len_q):
    query, key, value = make(7, seq_len_q, 0, 4, 5)
    out, lse = attention(query, key, value, enable_gqa=True, return_lse=True, rung=rung)
    assert out.shape == (1, 2, seq_len_q, 5)
    assert (out == 0).all()
    assert (lse == -torch.inf).all()
    if rung == "triton":
        leaves = [x.requires_grad_() for x in (query, key, value)]
        out = attention(*leaves, enable_gqa=True, rung=rung)
        for leaf, gradient in zip(leaves, torch.autograd.grad(out.sum(), leaves), strict=True):
            assert gradient.shape == leaf.shape
            assert (gradient == 0).all()


@pytest.mark.parametrize(
    "options",
    [
        {"is_causal": True},
        {"attn_mask": torch.arange(50, device=DEVICE) < 33},
        {"attn_mask": torch.where(torch.arange(50, device=DEVICE) < 33, 0.0, -torch.inf)},
    ],
    ids=["causal", "bool", "float"],
)
def test_nan_in_keys_that_nobody_sees_is_harmless(options):
    query, key, value = make(8, 33, 50, 8, 8)
    key[:, :, 33:], value[:, :, 33:] = torch.nan, torch.nan
    leaves = [x.requires_grad_() for x in (query, key, value)]
    with blocks.use(16, 32):
        out = attention(*leaves, enable_gqa=True, rung="triton", **options)
        gradients = torch.autograd.grad(out.square().sum(), leaves)
    assert out.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (gradients[1][:, :, 33:] == 0).all()


def test_a_row_of_finfo_min_is_a_row_of_equals():
    query, key, value = (x.float().requires_grad_() for x in make(9, 3, 5, 4, 4))
    mask = torch.full((3, 5), torch.finfo(torch.float32).min, device=DEVICE)
    out = attention(query, key, value, mask, enable_gqa=True, rung="triton")
    torch.testing.assert_close(out, value.mean(2, keepdim=True).expand(out.shape))
    (gradient,) = torch.autograd.grad(out.sum(), value)
    torch.testing.assert_close(gradient, torch.full_like(gradient, 2 * 3 / 5))


def test_the_past_never_depends_on_the_future():
    query, key, value = make(10, 40, 40, 8, 8, torch.float32)
    changed_key, changed_value = key.clone(), value.clone()
    changed_key[:, :, 23:] *= -7
    changed_value[:, :, 23:] += 1000
    call = {"is_causal": True, "enable_gqa": True, "rung": "triton"}
    with blocks.use(16, 16):
        before = attention(query, key, value, **call)
        after = attention(query, changed_key, changed_value, **call)
    assert torch.equal(before[:, :, :23], after[:, :, :23])
    assert not torch.equal(before[:, :, 23:], after[:, :, 23:])


@pytest.mark.parametrize("tile", [(16, 16), (32, 64)], ids=str)
def test_the_mask_of_dropout_is_the_ladders(tile):
    query, key, _ = make(11, 37, 45, 4, 4)
    value = torch.eye(45, dtype=torch.float64, device=DEVICE).expand(1, 1, 45, 45)
    with blocks.use(*tile):
        weights = attention(
            query, key, value, None, 0.4, enable_gqa=True, dropout_seed=2**64 - 3, rung="triton"
        )
    expected = dropout.keep(weights, 0.4, 2**64 - 3)
    assert torch.equal(weights != 0, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rung", ["triton", "triton_forward"])
def test_half_types_err_at_most_twice_as_much_as_pytorch(rung, dtype):
    query, key, value = make(12, 50, 70, 24, 24, dtype, heads=2, kv_heads=2)
    exact = reference.attention(query, key, value, is_causal=True)
    plain = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    with blocks.use(32, 32):
        out = attention(query, key, value, is_causal=True, rung=rung)
    allowed = 2 * np.abs(to_numpy(plain) - exact).max() + torch.finfo(dtype).eps
    assert np.abs(to_numpy(out) - exact).max() <= allowed


def test_views_are_read_where_they_lie():
    packed = make(13, 20, 20, 9, 9)[0][0].repeat(3, 1, 1)  # (6, 20, 9)
    query, key, value = packed.unflatten(0, (1, 2, 3)).unbind(2)  # strided heads
    query = query.transpose(-1, -2).contiguous().transpose(-1, -2)  # strided last axis
    value = value[:, :1].expand(1, 2, 20, 9)
    assert_is_oracle("triton", query, key, value, 1e-12, is_causal=True)
    leaves = [x.detach().requires_grad_() for x in (query, key, value)]
    found = torch.autograd.grad(attention(*leaves, rung="triton").sum(), leaves)
    expected = torch.autograd.grad(attention(*leaves, rung="batched").sum(), leaves)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("shape", [(5, 4), (2, 5, 4), (2, 3, 2, 5, 4)], ids=str)
def test_any_number_of_batch_axes(shape):
    query = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mask = query[..., :1] > -1  # one answer a query
    query = query.to(DEVICE)
    options = {"dropout_p": 0.3, "dropout_seed": 3, "attn_mask": mask.to(DEVICE)}
    assert_is_oracle("triton", query, query, query, 1e-12, **options)


def test_autocast_lowers_float32_as_it_does_for_pytorch():
    query, key, value = make(14, 9, 9, 4, 4, torch.float32, kv_heads=2)
    attend = by_name("triton").attend
    call = Call.of(query, key, value, enable_gqa=True)
    with torch.autocast(DEVICE, torch.bfloat16):
        assert attend(query, key, value, call)[0].dtype == torch.bfloat16
        assert attend(*(x.double() for x in (query, key, value)), call)[0].dtype == torch.float64
        out = attention(query, key, value, rung="triton")
    assert out.dtype == torch.float32
    torch.testing.assert_close(
        out, attention(query, key, value, rung="batched"), rtol=0.02, atol=0.02
    )


def test_second_derivatives_are_refused():
    query, key, value = (x.requires_grad_() for x in make(15, 3, 3, 2, 2))
    out = attention(query, key, value, enable_gqa=True, rung="triton")
    (gradient,) = torch.autograd.grad(out.sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="attention_backward"):
        gradient.sum().backward()


def test_a_cap_far_above_the_scores_changes_nothing():
    x = torch.randn(1, 1, 4, 8, dtype=torch.float64, device=DEVICE)
    capped = attention(x, x, x, softcap=1e30, rung="triton")
    torch.testing.assert_close(capped, attention(x, x, x, rung="batched"))
