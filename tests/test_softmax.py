"""Softmax in four ways and the merge, on scores large enough to break careless ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attncourse import softmax


@pytest.mark.parametrize("gain", [1.0, 300.0], ids=["mild", "huge-scores"])
@pytest.mark.parametrize("way", [softmax.stable, softmax.online], ids=["stable", "online"])
def test_each_weight_is_one_over_a_sum_of_ratios(way, gain):
    scores = gain * np.random.default_rng(0).standard_normal((5, 13))
    with np.errstate(over="ignore"):
        expected = 1 / np.exp(scores[:, None, :] - scores[:, :, None]).sum(-1)
    np.testing.assert_allclose(way(scores), expected, rtol=1e-12, atol=1e-300)


def test_naive_equals_stable_where_it_does_not_overflow_and_breaks_where_it_does():
    scores = np.random.default_rng(1).standard_normal((4, 6))
    np.testing.assert_allclose(softmax.naive(scores), softmax.stable(scores), rtol=1e-14)
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.isnan(softmax.naive(scores + 800.0)).all()
    np.testing.assert_allclose(softmax.stable(scores + 800.0), softmax.stable(scores), rtol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_every_axis_is_normalised_alone(axis):
    scores = np.random.default_rng(2).standard_normal((3, 4, 5))
    for way in (softmax.naive, softmax.stable):
        np.testing.assert_allclose(way(scores, axis=axis).sum(axis), 1.0, rtol=1e-14)
    moved = softmax.stable(np.moveaxis(scores, axis, -1))
    np.testing.assert_array_equal(softmax.stable(scores, axis=axis), np.moveaxis(moved, -1, axis))
    lse = softmax.logsumexp(scores, axis=axis)
    np.testing.assert_allclose(lse, np.log(np.exp(scores).sum(axis)), rtol=1e-14)


@pytest.mark.parametrize("way", [softmax.stable, softmax.online], ids=["stable", "online"])
def test_rows_of_minus_infinity_and_of_nothing_give_zeros(way):
    scores = np.array([[-np.inf, -np.inf], [0.0, -np.inf]])
    np.testing.assert_array_equal(way(scores), [[0.0, 0.0], [1.0, 0.0]])
    np.testing.assert_array_equal(softmax.logsumexp(scores), [-np.inf, 0.0])
    assert way(np.zeros((3, 0))).shape == (3, 0)
    np.testing.assert_array_equal(softmax.logsumexp(np.zeros((3, 0))), [-np.inf] * 3)


def test_float32_stays_float32():
    scores = np.zeros((2, 3), np.float32)
    assert softmax.stable(scores).dtype == softmax.logsumexp(scores).dtype == np.float32


def test_whole_numbers_are_scores_too():
    for way in (softmax.naive, softmax.stable, softmax.online):
        np.testing.assert_allclose(way(np.array([1, 2, 3])), way(np.array([1.0, 2.0, 3.0])))
    assert softmax.logsumexp(np.array([0, 0])) == pytest.approx(np.log(2.0))


def _part(rng, gain, num_keys):
    scores, values = gain * rng.standard_normal((7, num_keys)), rng.standard_normal((num_keys, 4))
    return scores, values


def _attend(scores, values):
    return softmax.stable(scores) @ values, softmax.logsumexp(scores)


@pytest.mark.parametrize("gain", [1.0, 300.0], ids=["mild", "huge-scores"])
@pytest.mark.parametrize("cut", [0, 1, 5, 12, 13])
def test_merge_of_two_parts_is_the_whole(cut, gain):
    scores, values = _part(np.random.default_rng(3), gain, 13)
    left = _attend(scores[:, :cut], values[:cut])
    right = _attend(scores[:, cut:], values[cut:])
    for merged in (softmax.merge(*left, *right), softmax.merge(*right, *left)):
        np.testing.assert_allclose(merged[0], _attend(scores, values)[0], rtol=1e-12)
        np.testing.assert_allclose(merged[1], softmax.logsumexp(scores), rtol=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e4, 1e4), min_size=3, max_size=3), st.integers(0, 2**32 - 1))
def test_merge_is_associative(logs, seed):
    rng = np.random.default_rng(seed)
    parts = [(rng.standard_normal((1, 2)), np.array([log])) for log in logs]
    first = softmax.merge(*softmax.merge(*parts[0], *parts[1]), *parts[2])
    second = softmax.merge(*parts[0], *softmax.merge(*parts[1], *parts[2]))
    np.testing.assert_allclose(first[0], second[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(first[1], second[1], rtol=1e-12)


def test_minus_infinity_is_the_identity_of_merge_and_far_parts_are_safe():
    out, lse = np.array([[1.0, 2.0]]), np.array([-5e4])
    nothing = np.zeros((1, 2)), np.array([-np.inf])
    for merged in (softmax.merge(out, lse, *nothing), softmax.merge(*nothing, out, lse)):
        np.testing.assert_array_equal(merged[0], out)
        np.testing.assert_array_equal(merged[1], lse)
    both_empty = softmax.merge(*nothing, *nothing)
    np.testing.assert_array_equal(both_empty[0], [[0.0, 0.0]])
    np.testing.assert_array_equal(both_empty[1], [-np.inf])
    np.testing.assert_array_equal(softmax.merge(out, lse, 9 + out, np.array([5e4]))[0], 9 + out)


def test_merge_takes_tensors():
    torch = pytest.importorskip("torch")
    scores, values = _part(np.random.default_rng(4), 3.0, 9)
    left, right = _attend(scores[:, :4], values[:4]), _attend(scores[:, 4:], values[4:])
    arrays = softmax.merge(*left, *right)
    tensors = softmax.merge(*map(torch.from_numpy, (*left, *right)))
    np.testing.assert_allclose(tensors[0].numpy(), arrays[0], rtol=1e-14)
    np.testing.assert_allclose(tensors[1].numpy(), arrays[1], rtol=1e-14)


def test_merge_names_the_shapes_that_disagree():
    out, lse = np.zeros((3, 2)), np.zeros(3)
    with pytest.raises(ValueError, match=r"out1 has \(3, 2\).*out2 has \(4, 2\)"):
        softmax.merge(out, lse, np.zeros((4, 2)), np.zeros(4))
    with pytest.raises(ValueError, match=r"lse1 \(3,\), .* lse2 \(1,\)"):
        softmax.merge(out, lse, out, np.zeros(1))
    with pytest.raises(ValueError, match=r"out has \(3, 2\), lse has \(2,\)"):
        softmax.merge(out, np.zeros(2), out, np.zeros(2))


def test_merge_passes_gradients_also_where_nothing_was_seen():
    torch = pytest.importorskip("torch")
    parts = [torch.randn(3, 2, dtype=torch.float64), torch.tensor([0.3, -torch.inf, -torch.inf])]
    parts += [torch.randn(3, 2, dtype=torch.float64), torch.tensor([1.1, 0.2, -torch.inf])]
    parts = [part.double().requires_grad_() for part in parts]
    out, lse = softmax.merge(*parts)
    (out.square().sum() + lse[:2].sum()).backward()
    assert all(torch.isfinite(part.grad).all() for part in parts)
    expected = torch.softmax(torch.stack([parts[1][0], parts[3][0]]).detach(), 0)
    assert parts[0].grad[0, 0].item() == pytest.approx((2 * out[0, 0] * expected[0]).item())
