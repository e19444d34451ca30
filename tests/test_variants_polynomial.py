"""Polynomial attention against loops that share no code, with masks, and what it is not."""

import numpy as np
import pytest
import torch

from attncourse import masks
from attncourse.variants import polynomial


def inputs(*batch, seq_len_q=7, seq_len_kv=7, width=4, value_width=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    sizes = ((seq_len_q, width), (seq_len_kv, width), (seq_len_kv, value_width))
    return [
        2 * torch.randn(*batch, *size, generator=generator, dtype=torch.float64).to(dtype)
        for size in sizes
    ]


def oracle(query, key, value, allowed, power, coefficient, scale):
    """Add up one head's values, one pair at a time."""
    out = np.zeros((len(query), value.shape[1]))
    for i, q in enumerate(query):
        k = coefficient if coefficient is not None else 1 / np.sqrt(max(allowed[i].sum(), 1))
        for j in np.flatnonzero(allowed[i]):
            score = scale * sum(a * b for a, b in zip(q, key[j], strict=True))
            out[i] += k * np.prod([score] * power) * value[j]
    return out


@pytest.mark.parametrize("power", [1, 2, 3, 4])
@pytest.mark.parametrize("coefficient", [None, 0.25, 1.0])
@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
def test_it_is_the_sum_written_out(power, coefficient, is_causal):
    q, k, v = inputs(2, 3, seq_len_q=5, seq_len_kv=8)
    mask = np.random.default_rng(1).random((5, 8)) < 0.7
    mask[3] = False
    allowed = mask & masks.causal(5, 8) if is_causal else mask
    options = {"power": power, "coefficient": coefficient, "is_causal": is_causal}
    for given, scale in (({}, 0.5), ({"scale": -0.3}, -0.3)):
        out = polynomial.attention(q, k, v, mask, **options, **given)
        for b, h in np.ndindex(2, 3):
            head = (x[b, h].numpy() for x in (q, k, v))
            expected = oracle(*head, allowed, power, coefficient, scale)
            np.testing.assert_allclose(out[b, h], expected, rtol=1e-10, atol=1e-10)
    assert not out[:, :, 3].any(), "a row that sees nothing gives zeros"


@pytest.mark.parametrize("power", [1, 2, 3])
def test_gradients(power):
    q, k, v = (x.requires_grad_() for x in inputs(2, seq_len_q=3, seq_len_kv=5))
    mask = masks.window(3, 5, size=2)

    def call(*tensors):
        return polynomial.attention(*tensors, mask, power=power)

    assert torch.autograd.gradcheck(call, (q, k, v))


def test_a_row_that_sees_nothing_has_gradients_of_zero():
    q, k, v = (x.requires_grad_() for x in inputs(2))
    mask = torch.ones(7, 7, dtype=torch.bool)
    mask[3] = False
    polynomial.attention(q, k, v, mask).sum().backward()
    assert not q.grad[:, 3].any()
    assert all(torch.isfinite(x.grad).all() for x in (q, k, v))
    assert k.grad.ne(0).all()


def test_a_mask_for_each_head():
    q, k, v = inputs(2, 3)
    mask = torch.rand(2, 3, 7, 7, generator=torch.Generator().manual_seed(1)) < 0.6
    out = polynomial.attention(q, k, v, mask)
    for b, h in np.ndindex(2, 3):
        alone = polynomial.attention(q[b, h], k[b, h], v[b, h], mask[b, h])
        torch.testing.assert_close(out[b, h], alone)
    few = polynomial.attention(q, k, v, mask[:, :, :1, :1])  # all keys or none
    assert few[mask[:, :, 0, 0]].ne(0).all()
    assert not few[~mask[:, :, 0, 0]].any()
    every = polynomial.attention(q, k, v)
    torch.testing.assert_close(few[mask[:, :, 0, 0]], every[mask[:, :, 0, 0]])


def test_a_causal_output_does_not_depend_on_what_follows():
    q, k, v = inputs(2)
    whole = polynomial.attention(q, k, v, is_causal=True)
    start = polynomial.attention(q[:, :4], k[:, :4], v[:, :4], is_causal=True)
    torch.testing.assert_close(whole[:, :4], start, rtol=1e-12, atol=0)
    fixed = polynomial.attention(q, k, v, is_causal=True, coefficient=7**-0.5)
    assert (fixed[:, 0] - start[:, 0]).abs().max() > 0.1, "a fixed 1/sqrt(S) does depend on it"


def test_weights_are_no_probabilities_and_are_what_attention_uses():
    q, k, v = inputs(2, seq_len_q=5, seq_len_kv=9)
    rows = polynomial.weights(q, k)
    assert (rows < 0).any()
    assert (rows.sum(-1) - 1).abs().min() > 1e-3
    torch.testing.assert_close(polynomial.attention(q, k, v), rows @ v)
    scores = q @ k.mT / 2
    torch.testing.assert_close(rows, scores * scores * scores / 3)


def test_hidden_values_do_not_matter_and_types_are_kept():
    q, k, v = inputs(2, dtype=torch.bfloat16)
    out = polynomial.attention(q, k, v, is_causal=True)
    assert out.dtype == torch.bfloat16
    wide = polynomial.attention(q.double(), k.double(), v.double(), is_causal=True)
    torch.testing.assert_close(out.double(), wide, rtol=2**-8, atol=1e-2)
    k[:, 4:], v[:, 4:] = torch.inf, 100.0
    again = polynomial.attention(q, k, v, is_causal=True)
    torch.testing.assert_close(again[:, :4], out[:, :4], rtol=0, atol=0)


def test_what_does_not_fit_is_refused():
    q, k, v = inputs(2)
    with pytest.raises(TypeError, match=r"boolean, True = attend; got torch\.float64"):
        polynomial.attention(q, k, v, torch.zeros(7, 7, dtype=torch.float64))
    with pytest.raises(ValueError, match="does not broadcast"):
        polynomial.attention(q, k, v, torch.ones(6, 7, dtype=torch.bool))
    with pytest.raises(ValueError, match="power must be at least 1, got 0"):
        polynomial.attention(q, k, v, power=0)
    with pytest.raises(TypeError, match="power must be an integer"):
        polynomial.attention(q, k, v, power=1.5)
    with pytest.raises(TypeError, match="tensors, got arrays"):
        polynomial.weights(q.numpy(), k.numpy())
    with pytest.raises(ValueError, match="key has 7 positions, value has 6"):
        polynomial.attention(q, k, v[:, :6])
    with pytest.raises(ValueError, match="query is 3 wide"):
        polynomial.weights(q[..., :3], k)


def test_wrong_coefficients_types_and_masks_are_refused():
    q, k, v = inputs(2)
    for bad in (float("nan"), float("inf"), torch.tensor(torch.nan)):
        with pytest.raises(ValueError, match="coefficient must be finite, got"):
            polynomial.attention(q, k, v, coefficient=bad)
    with pytest.raises(TypeError, match="coefficient must be a number, got str"):
        polynomial.attention(q, k, v, coefficient="x")
    with pytest.raises(ValueError, match=r"one number, got a tensor of shape \(3,\)"):
        polynomial.attention(q, k, v, coefficient=torch.ones(3))
    with pytest.raises(TypeError, match="share one dtype"):
        polynomial.weights(q, k.float())
    with pytest.raises(TypeError, match="tensor or array, got str"):
        polynomial.attention(q, k, v, "causal")
    with pytest.raises(TypeError, match="got NoneType"):
        polynomial.attention(None, k, v)
    with pytest.raises(TypeError, match="is_causal must be True or False, got str"):
        polynomial.attention(q, k, v, is_causal="no")


def test_a_coefficient_may_be_learned():
    q, k, v = inputs(2)
    learned = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    out = polynomial.attention(q, k, v, coefficient=learned)
    torch.testing.assert_close(out, polynomial.attention(q, k, v, coefficient=0.5))
    out.sum().backward()
    torch.testing.assert_close(learned.grad, 2 * out.sum().detach())


def test_a_value_that_nobody_sees_reaches_nothing():
    query, key, value = torch.randn(3, 2, 4), torch.randn(3, 5, 4), torch.randn(3, 5, 3)
    mask = torch.arange(5) < 4
    wanted = polynomial.attention(query, key, value, mask)
    key[:, 4], value[:, 4] = torch.inf, torch.nan
    assert torch.equal(polynomial.attention(query, key, value, mask), wanted)
    causal = polynomial.attention(query, key, value, is_causal=True)
    assert causal.isfinite().all(), "keys 2 to 4 lie in the future of both queries"
