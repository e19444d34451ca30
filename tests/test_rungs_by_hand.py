"""What the written-out backward pass alone has: the scores' gradient, and rows without a key.

That its gradients are right in every way of calling, `test_ladder` shows.
"""

import ladder_cases as cases
import numpy as np
import pytest
import torch

from attncourse.rungs import attention, by_hand

pytestmark = pytest.mark.ladder


def test_gradient_of_the_scores_is_that_of_a_float_mask():
    arrays = [x.numpy() for x in cases.inputs("wide")]
    rng = np.random.default_rng(3)
    mask, push = rng.standard_normal((2, 5, 9)), rng.standard_normal((2, 2, 5, 3))
    *_, kept = by_hand.attention_forward(*arrays, mask)
    grads = by_hand.attention_backward(push, kept)

    def loss(mask):
        return (by_hand.attention_forward(*arrays, mask)[0] * push).sum()

    slope, step = np.zeros_like(mask), 1e-5
    for at in np.ndindex(mask.shape):
        moved = np.zeros_like(mask)
        moved[at] = step
        slope[at] = (loss(mask + moved) - loss(mask - moved)) / (2 * step)
    np.testing.assert_allclose(grads.scores.sum(axis=0), slope, atol=1e-7)


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
