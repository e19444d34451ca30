"""Bad input: every error says what was wanted and what came."""

import numpy as np
import pytest

import attncourse
from attncourse import _validate
from attncourse.rungs import LADDER


def ones(*shape, dtype=np.float64):
    return np.ones(shape, dtype)


@pytest.mark.parametrize(
    ("q", "k", "v", "message"),
    [
        ((3, 4), (5, 6), (5, 2), r"query is 4 wide, key is 6 wide: shapes \(3, 4\) and \(5, 6\)"),
        ((3, 4), (5, 4), (6, 2), r"key has 5 positions, value has 6: shapes \(5, 4\) and \(6, 2\)"),
        ((4,), (5, 4), (5, 2), r"same number of axes.*query \(4,\), key \(5, 4\), value \(5, 2\)"),
        ((2, 3, 4), (5, 4), (5, 2), r"query \(2, 3, 4\), key \(5, 4\)"),
        ((2, 1, 3, 4), (3, 1, 5, 4), (3, 1, 5, 2), r"\(2, 1, 3, 4\) and \(3, 1, 5, 4\)"),
        ((2, 1, 3, 4), (2, 1, 5, 4), (1, 1, 5, 2), r"\(2, 1, 3, 4\) and \(1, 1, 5, 2\)"),
        ((8, 3, 4), (3, 5, 4), (3, 5, 2), r"query has 8 heads, key has 3.*enable_gqa"),
        ((8, 3, 4), (1, 5, 4), (1, 5, 2), r"query has 8 heads, key has 1.*never broadcast"),
        ((8, 3, 4), (8, 5, 4), (4, 5, 2), r"key has 8 heads, value has 4"),
        ((3, 0), (5, 0), (5, 2), r"at least 1 wide, got shape \(3, 0\)"),
    ],
    ids=["width", "length", "axes-1", "axes-mixed", "batch-key", "batch-value", "heads",
         "heads-1", "heads-value", "no-width"],
)  # fmt: skip
def test_shapes_that_disagree_are_both_named(q, k, v, message):
    with pytest.raises(ValueError, match=message):
        attncourse.attention(ones(*q), ones(*k), ones(*v))


def test_a_head_ratio_that_does_not_divide_is_named():
    with pytest.raises(ValueError, match="key has 3 heads, query has 8; 8 must be a multiple of 3"):
        attncourse.attention(ones(8, 2, 4), ones(3, 5, 4), ones(3, 5, 4), enable_gqa=True)
    with pytest.raises(ValueError, match="8 must be a multiple of 0"):
        attncourse.attention(ones(8, 2, 4), ones(0, 5, 4), ones(0, 5, 4), enable_gqa=True)
    with pytest.raises(ValueError, match="key has 2 heads, query has 0"):
        attncourse.attention(ones(0, 2, 4), ones(2, 5, 4), ones(2, 5, 4), enable_gqa=True)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"attn_mask": ones(3, 5, dtype=int)}, TypeError, "boolean .* or floating .*got int64"),
        ({"attn_mask": ones(3, 4, dtype=bool)}, ValueError, r"\(3, 4\).*\(3, 5\)"),
        ({"attn_mask": ones(2, 3, 5, dtype=bool)}, ValueError, r"\(2, 3, 5\).*\(3, 5\)"),
        ({"attn_mask": "causal"}, TypeError, "got str"),
        ({"dropout_p": 1.0}, ValueError, r"\[0, 1\), got 1.0"),
        ({"dropout_p": -0.1}, ValueError, r"\[0, 1\), got -0.1"),
        ({"dropout_p": 0.1, "dropout_seed": -1}, ValueError, r"\[0, 2\*\*64\), got -1"),
        ({"causal_align": "left"}, ValueError, "'top_left', 'bottom_right'.*got 'left'"),
        ({"window_size": 2}, ValueError, "needs is_causal=True"),
        ({"window_size": 0, "is_causal": True}, ValueError, "at least 1, got 0"),
        ({"window_size": 2.0, "is_causal": True}, TypeError, "integer, got float"),
        ({"softcap": 0.0}, ValueError, "positive number, got 0.0"),
        ({"scale": "x"}, TypeError, "scale must be a number, got str"),
        ({"scale": np.inf}, ValueError, "scale must be finite, got inf"),
        ({"is_causal": "no"}, TypeError, "True or False, got str"),
        ({"dropout_p": 0.1, "dropout_seed": 1.5}, TypeError, "integer, got float"),
        ({"alibi_slopes": ones(2)}, ValueError, r"head axis, but query has shape \(3, 4\)"),
        ({"rung": "flash"}, ValueError, "no rung is called 'flash'; there are .*loops"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_bad_options_are_named(options, error, message):
    with pytest.raises(error, match=message):
        attncourse.attention(ones(3, 4), ones(5, 4), ones(5, 2), **options)


def test_slopes_must_be_one_a_head():
    with pytest.raises(ValueError, match=r"alibi_slopes has shape \(3,\), wanted \(2,\)"):
        attncourse.attention(*[ones(2, 3, 4)] * 3, alibi_slopes=ones(3))


def test_types_are_never_mixed_or_integer():
    with pytest.raises(TypeError, match="query must hold floating-point numbers, got int64"):
        attncourse.attention(*[ones(3, 4, dtype=np.int64)] * 3)
    with pytest.raises(TypeError, match="query float64, key float32, value float64"):
        attncourse.attention(ones(3, 4), ones(3, 4, dtype=np.float32), ones(3, 4))
    with pytest.raises(TypeError, match="wanted a NumPy array or a torch tensor, got list"):
        attncourse.attention([[1.0]], [[1.0]], [[1.0]])


@pytest.mark.parametrize("dtype", [np.longdouble, np.complex64, ">f8"])
def test_types_that_no_rung_computes_in_are_named(dtype):
    if np.dtype(dtype) == np.float64:
        pytest.skip("longdouble is float64 on this platform")
    with pytest.raises(TypeError, match="query must"):
        attncourse.attention(*[ones(3, 4, dtype=dtype)] * 3)


def test_subclasses_that_change_arithmetic_are_refused():
    for odd in (np.ma.masked_array(ones(3, 4)), np.float64(1.0)):
        with pytest.raises(TypeError, match=f"wanted a NumPy array.*got {type(odd).__name__}"):
            attncourse.attention(odd, odd, odd)


def test_float8_is_refused_by_name():
    torch = pytest.importorskip("torch")
    tensor = torch.ones(3, 4).to(torch.float8_e4m3fn)
    with pytest.raises(
        TypeError, match=r"one of float16, bfloat16, float32, float64, got .*float8"
    ):
        attncourse.attention(tensor, tensor, tensor)


def test_a_mask_may_be_a_single_boolean():
    out = attncourse.attention(ones(3, 4), ones(5, 4), ones(5, 2), np.bool_(False))
    np.testing.assert_array_equal(out, np.zeros((3, 2)))


def test_arrays_and_tensors_are_never_mixed():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="all be arrays or all be tensors; got Tensor, ndarray"):
        attncourse.attention(torch.ones(3, 4), ones(3, 4), ones(3, 4))


def test_a_numpy_rung_refuses_tensors_that_need_gradients():
    torch = pytest.importorskip("torch")
    tensor = torch.ones(3, 4, requires_grad=True)
    for rung in LADDER:
        if rung.library == "numpy":
            with pytest.raises(TypeError, match=f"{rung.name}.*requires_grad"):
                attncourse.attention(tensor, tensor, tensor, rung=rung.name)
            with torch.no_grad():
                assert attncourse.attention(tensor, tensor, tensor, rung=rung.name).shape == (3, 4)


def test_no_keys_give_zeros_and_no_queries_give_nothing():
    out, lse = attncourse.attention(ones(3, 4), ones(0, 4), ones(0, 2), return_lse=True)
    np.testing.assert_array_equal(out, np.zeros((3, 2)))
    np.testing.assert_array_equal(lse, [-np.inf] * 3)
    assert attncourse.attention(ones(0, 4), ones(3, 4), ones(3, 2)).shape == (0, 2)


def test_the_lowest_number_is_a_number_and_only_minus_infinity_hides():
    value = np.array([[1.0], [3.0]])
    lowest = np.full((1, 2), np.finfo(np.float64).min)
    out = attncourse.attention(ones(1, 1), ones(2, 1), value, attn_mask=lowest)
    np.testing.assert_array_equal(out, [[2.0]])
    out = attncourse.attention(ones(1, 1), ones(2, 1), value, attn_mask=np.full((1, 2), -np.inf))
    np.testing.assert_array_equal(out, [[0.0]])


def test_token_numbers_are_checked():
    _validate.tokens("ids", np.array([[0, 4]]), 5)
    with pytest.raises(TypeError, match="ids must hold integers, got float64"):
        _validate.tokens("ids", np.zeros((1, 2)), 5)
    with pytest.raises(TypeError, match="ids must hold integers, got bool"):
        _validate.tokens("ids", np.array([True]), 5)
    with pytest.raises(ValueError, match=r"at least one token, got shape \(0, 2\)"):
        _validate.tokens("ids", np.zeros((0, 2), int), 5)
    with pytest.raises(ValueError, match="ids must hold tokens 0 to 4, got -1 to 5"):
        _validate.tokens("ids", np.array([-1, 5]), 5)
