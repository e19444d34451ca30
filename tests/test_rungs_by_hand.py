"""The backward pass written out agrees with finite differences and with autograd."""

import ladder_cases as cases
import numpy as np
import pytest
import torch

from attncourse import reference
from attncourse.rungs import attention, batched, by_hand

pytestmark = pytest.mark.ladder


def problem(name, size):
    query, key, value = cases.inputs(size)
    call = cases.options(name, query, key)
    rng = np.random.default_rng(3)
    grad_out = rng.standard_normal((*query.shape[:-1], value.shape[-1]))
    grad_lse = rng.standard_normal(query.shape[:-1])
    return (query, key, value), call, grad_out, grad_lse


def loss(arrays, call, grad_out, grad_lse):
    """Return a number whose gradient the backward pass gives; blind rows' lse is left out."""
    out, lse, _ = by_hand.attention_forward(*arrays, **call)
    seen = np.isfinite(lse)
    return (out * grad_out).sum() + (lse[seen] * grad_lse[seen]).sum()


def finite_differences(function, array, step=1e-5):
    slope = np.zeros_like(array)
    for at in np.ndindex(array.shape):
        value, ends = array[at], []
        for moved in (value + step, value - step):
            array[at] = moved
            ends.append(function())
        array[at] = value
        slope[at] = (ends[0] - ends[1]) / (2 * step)
    return slope


@pytest.mark.parametrize("size", cases.SIZES)
@pytest.mark.parametrize("name", cases.OPTIONS)
def test_forward_is_the_oracle(name, size):
    tensors, call, *_ = problem(name, size)
    expected = reference.attention(*tensors, **call, return_lse=True)
    arrays = [x.numpy() for x in tensors]
    result = cases.on(by_hand)(*arrays, **cases.as_numpy(call), return_lse=True)
    cases.assert_like_oracle(result, expected)


@pytest.mark.parametrize("size", ["tall", "grouped"])
@pytest.mark.parametrize("name", cases.OPTIONS)
def test_backward_agrees_with_finite_differences(name, size):
    tensors, call, grad_out, grad_lse = problem(name, size)
    arrays, call = [x[:1].numpy() for x in tensors], cases.as_numpy(call)
    if "attn_mask" in call and call["attn_mask"].ndim == 4:
        call["attn_mask"] = call["attn_mask"][:1]
    grad_out, grad_lse = grad_out[:1], grad_lse[:1]
    *_, kept = by_hand.attention_forward(*arrays, **call)
    grads = by_hand.attention_backward(grad_out, kept, grad_lse)
    for argument, grad in zip(("query", "key", "value"), grads[:3], strict=True):
        array = arrays[("query", "key", "value").index(argument)]
        slope = finite_differences(lambda: loss(arrays, call, grad_out, grad_lse), array)
        np.testing.assert_allclose(grad, slope, atol=1e-7, err_msg=argument)


def test_gradient_of_the_scores_is_that_of_a_float_mask():
    tensors, call, grad_out, grad_lse = problem("float-mask", "wide")
    arrays, call = [x.numpy() for x in tensors], cases.as_numpy(call)
    mask = np.where(np.isneginf(call["attn_mask"]), 0.5, call["attn_mask"])
    call["attn_mask"] = mask
    *_, kept = by_hand.attention_forward(*arrays, **call)
    grads = by_hand.attention_backward(grad_out, kept, grad_lse)
    slope = finite_differences(lambda: loss(arrays, call, grad_out, grad_lse), mask)
    np.testing.assert_allclose(grads.scores.sum(axis=0), slope, atol=1e-7)


@pytest.mark.parametrize("size", cases.SIZES)
@pytest.mark.parametrize("name", cases.OPTIONS)
def test_backward_agrees_with_autograd(name, size):
    tensors, call, grad_out, grad_lse = problem(name, size)
    *_, kept = by_hand.attention_forward(*(x.numpy() for x in tensors), **cases.as_numpy(call))
    grads = by_hand.attention_backward(grad_out, kept, grad_lse)
    tensors = [x.requires_grad_() for x in tensors]
    out, lse = cases.on(batched)(*tensors, **call, return_lse=True)
    total = (out * torch.from_numpy(grad_out)).sum()
    total = total + (lse * torch.from_numpy(grad_lse))[lse.isfinite()].sum()
    for ours, theirs in zip(grads, torch.autograd.grad(total, tensors), strict=False):
        np.testing.assert_allclose(ours, theirs, atol=1e-11)


def test_blind_rows_and_unseen_keys_have_gradient_zero():
    query, key, value = (x.numpy() for x in cases.inputs("tall"))
    mask = np.ones((9, 5), bool)
    mask[2], mask[:, 3] = False, False
    key[..., 3, :], value[..., 3, :] = np.nan, np.inf
    out, lse, kept = by_hand.attention_forward(query, key, value, mask)
    grads = by_hand.attention_backward(np.ones_like(out), kept, np.ones_like(lse))
    assert all(np.isfinite(grad).all() for grad in grads)
    assert not grads.query[..., 2, :].any()
    assert not grads.key[..., 3, :].any()
    assert not grads.value[..., 3, :].any()
    assert grads.query[..., 1, :].all()
    assert np.isneginf(lse[..., 2]).all()


def test_on_the_ladder_it_takes_single_precision_and_refuses_gradients():
    query, key, value = cases.inputs("wide", dtype=torch.float16)
    assert attention(query, key, value, rung="by_hand").dtype == torch.float16
    with pytest.raises(TypeError, match="by_hand"):
        attention(query.requires_grad_(), key, value, rung="by_hand")
