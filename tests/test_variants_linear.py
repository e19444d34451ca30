"""Linear attention: three forms of the same numbers, against loops in NumPy that share no code."""

import numpy as np
import pytest
import torch

from attncourse.variants import linear

FORMS = ("parallel", "chunked", "recurrent")
SHAPES = {
    "square": ((2, 3), 17, 17, 5, 4),
    "one": ((1, 1), 1, 1, 3, 2),
    "no-heads": ((), 9, 9, 4, 6),
}
each_form = pytest.mark.parametrize("form", FORMS)
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
causal_or_not = pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])


def inputs(batch, seq_len_q, seq_len_kv, width, value_width, *, seed=0, gain=2.0, **how):
    generator = torch.Generator().manual_seed(seed)
    how = {"generator": generator, "dtype": torch.float64} | how
    sizes = ((seq_len_q, width), (seq_len_kv, width), (seq_len_kv, value_width))
    return [gain * torch.randn(*batch, *size, **how) for size in sizes]


def phi(x):
    return x + 1 if x > 0 else np.exp(x)


def oracle(query, key, value, is_causal):
    """Average the values of one head with weights phi(q)·phi(k), one number at a time."""
    out = np.zeros((len(query), value.shape[1]))
    for i, q in enumerate(query):
        total = 0.0
        for j, k in enumerate(key[: i + 1] if is_causal else key):
            weight = sum(phi(a) * phi(b) for a, b in zip(q, k, strict=True))
            total += weight
            out[i] += weight * value[j]
        out[i] /= total
    return out


def by_heads(query, key, value, is_causal):
    heads = [x.detach().numpy().reshape(-1, *x.shape[-2:]) for x in (query, key, value)]
    out = [oracle(*head, is_causal) for head in zip(*heads, strict=True)]
    return np.reshape(out, (*query.shape[:-1], value.shape[-1]))


@each_form
@each_shape
@causal_or_not
def test_every_form_gives_the_sums_written_out(form, shape, is_causal):
    q, k, v = inputs(*shape)
    out = linear.attention(q, k, v, is_causal=is_causal, form=form, chunk=5)
    np.testing.assert_allclose(out, by_heads(q, k, v, is_causal), rtol=1e-10, atol=1e-10)


@each_form
def test_more_keys_than_queries(form):
    q, k, v = inputs((2,), 3, 11, 4, 5)
    out = linear.attention(q, k, v, form=form)
    np.testing.assert_allclose(out, by_heads(q, k, v, False), rtol=1e-10)


@pytest.mark.parametrize("chunk", [1, 2, 7, 16, 17, 100])
def test_any_chunk_gives_the_same(chunk):
    q, k, v = inputs((2, 3), 17, 17, 5, 4)
    expected = linear.attention(q, k, v, is_causal=True, form="parallel")
    out = linear.attention(q, k, v, is_causal=True, chunk=chunk)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)


@each_form
@causal_or_not
def test_gradients(form, is_causal):
    q, k, v = (x.requires_grad_() for x in inputs((2,), 6, 6, 3, 2, gain=1.0))

    def call(*tensors):
        return linear.attention(*tensors, is_causal=is_causal, form=form, chunk=4)

    assert torch.autograd.gradcheck(call, (q, k, v))


@each_form
def test_the_future_does_not_reach_the_past(form):
    q, k, v = inputs((2,), 9, 9, 4, 3)
    before = linear.attention(q, k, v, is_causal=True, form=form, chunk=4)
    k[:, 5:], v[:, 5:] = 7.0, -3.0
    after = linear.attention(q, k, v, is_causal=True, form=form, chunk=4)
    torch.testing.assert_close(after[:, :5], before[:, :5], rtol=0, atol=0)
    assert (after[:, 5:] != before[:, 5:]).all()


def test_decoding_step_by_step_is_the_causal_form():
    q, k, v = inputs((2, 3), 12, 12, 5, 4)
    expected = linear.attention(q, k, v, is_causal=True, form="parallel")
    state, out = linear.step(None, q[..., 4:5, :], k[..., :5, :], v[..., :5, :])  # the prompt
    torch.testing.assert_close(out, expected[..., 4:5, :], rtol=1e-10, atol=1e-12)
    for i in range(5, 12):
        here = slice(i, i + 1)
        state, out = linear.step(state, q[..., here, :], k[..., here, :], v[..., here, :])
        torch.testing.assert_close(out, expected[..., here, :], rtol=1e-10, atol=1e-12)
        assert state.pairs.shape == (2, 3, 5, 4)
        assert state.keys.shape == (2, 3, 5)


@each_form
def test_the_order_of_the_past_does_not_matter(form):
    q, k, v = inputs((), 8, 8, 4, 3)
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4, 7])
    out = linear.attention(q, k, v, is_causal=True, form=form, chunk=3)[-1]
    again = linear.attention(q, k[order], v[order], is_causal=True, form=form, chunk=3)[-1]
    torch.testing.assert_close(again, out, rtol=1e-10, atol=1e-12)


def test_features_stay_positive_far_below_zero():
    x = torch.tensor([-60.0, -20.0, -1e-3, 0.0, 1e-3, 40.0])
    features = linear.feature_map(x)
    torch.testing.assert_close(features, torch.where(x > 0, x + 1, x.exp()))
    assert (features > 0).all()
    assert torch.nn.functional.elu(x)[0] + 1 == 0, "the plain spelling loses it"
    assert torch.autograd.gradcheck(
        linear.feature_map, x[[0, 1, 2, 4, 5]].double().requires_grad_()
    )
    at_zero = torch.zeros(1, requires_grad=True)
    linear.feature_map(at_zero).backward()
    assert at_zero.grad.item() == 1


@each_form
@causal_or_not
def test_underflow_and_no_keys_give_zeros(form, is_causal):
    q, k, v = inputs((), 4, 4, 3, 2, dtype=torch.float32)
    q[:] = -200.0
    q.requires_grad_()
    out = linear.attention(q, k, v, is_causal=is_causal, form=form)
    assert not out.detach().any()
    out.sum().backward()
    assert torch.isfinite(q.grad).all()
    nothing = linear.attention(q[:2], k[:0], v[:0], form=form)
    assert nothing.shape == (2, 2)
    assert not nothing.any()
    assert linear.attention(q[:0], k[:0], v[:0], is_causal=is_causal, form=form).shape == (0, 2)


@each_form
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_low_precision_adds_up_in_a_wide_type(form, dtype):
    q, k, v = (x.to(dtype) for x in inputs((2,), 300, 300, 8, 4, gain=1.0))
    out = linear.attention(q, k, v, is_causal=True, form=form)
    assert out.dtype == dtype
    expected = linear.attention(q.double(), k.double(), v.double(), is_causal=True)
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(out.double(), expected, rtol=eps, atol=0.2 * eps)


@each_form
def test_inputs_are_not_modified(form):
    given = inputs((2,), 9, 9, 4, 3)
    copies = [x.clone() for x in given]
    linear.attention(*given, is_causal=True, form=form, chunk=4)
    assert all(torch.equal(a, b) for a, b in zip(given, copies, strict=True))


def test_what_does_not_fit_is_refused():
    q, k, v = inputs((2,), 4, 6, 3, 2)
    with pytest.raises(ValueError, match="as many queries as keys, got 4 and 6"):
        linear.attention(q, k, v, is_causal=True)
    with pytest.raises(ValueError, match=r"form must be .* got 'fast'"):
        linear.attention(q, k, v, form="fast")
    with pytest.raises(ValueError, match="chunk must be at least 1, got 0"):
        linear.attention(q, k, v, chunk=0)
    with pytest.raises(TypeError, match="torch tensors"):
        linear.attention(q.numpy(), k.numpy(), v.numpy())
    with pytest.raises(ValueError, match="key has 6 positions, value has 5"):
        linear.attention(q, k, v[:, :5])
    with pytest.raises(ValueError, match="newest token only"):
        linear.step(None, q, k, v)


def test_wrong_options_and_states_are_refused():
    q, k, v = inputs((2,), 6, 6, 3, 2)
    with pytest.raises(TypeError, match=r"chunk must be an integer, got float"):
        linear.attention(q, k, v, chunk=2.5)
    with pytest.raises(TypeError, match="is_causal must be True or False, got str"):
        linear.attention(q, k, v, is_causal="yes")
    for form in (linear.parallel, linear.recurrent, linear.chunked):
        with pytest.raises(ValueError, match="as many queries as keys, got 3 and 6"):
            form(q[:, :3], k, v, is_causal=True)
    newest = (q[:, -1:], k, v)
    with pytest.raises(ValueError, match="at least the newest token"):
        linear.step(None, q[:, -1:], k[:, :0], v[:, :0])
    with pytest.raises(TypeError, match="state must be a State or None, got tuple"):
        linear.step((k, v), *newest)
    others = {"batch": inputs((3,), 6, 6, 3, 2), "one": inputs((1,), 6, 6, 3, 2)}
    for _, wide, values in others.values():
        with pytest.raises(ValueError, match=r"state.pairs must be \(2, 3, 2\)"):
            linear.step(linear.empty_state(wide, values), *newest)
    with pytest.raises(ValueError, match=r"torch.float64, for these tokens; got .*float32"):
        linear.step(linear.empty_state(k.float(), v.float()), *newest)


def test_a_numpy_integer_is_a_chunk():
    q, k, v = inputs((2,), 6, 6, 3, 2)
    out = linear.attention(q, k, v, is_causal=True, chunk=np.int64(4))
    torch.testing.assert_close(out, linear.attention(q, k, v, is_causal=True, chunk=4))


def test_a_factor_hardly_sharpens_but_separate_features_do():
    key = torch.randn(1, 64, 16, generator=torch.Generator().manual_seed(0))
    see = torch.eye(64)[None]
    assert linear.attention(50 * key[:, :1], 50 * key, see)[0, 0, 0] < 0.2
    apart = 20 * (2 * torch.eye(16) - 1)  # each key has one feature of its own
    weights = linear.attention(apart, apart, torch.eye(16))
    assert weights.diagonal().min() > 0.999
