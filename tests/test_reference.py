"""The oracle itself, held to answers worked out by hand and to explicit lists of keys."""

from fractions import Fraction

import numpy as np
import pytest

from attncourse import reference


def test_weights_are_the_fractions_worked_out_by_hand():
    # scores ln 1, ln 2, ln 3 make weights 1/6, 2/6, 3/6
    key = np.log([[1.0], [2.0], [3.0]])
    out, lse, weights = reference.attention(
        np.ones((1, 1)),
        key,
        np.array([[6.0, 0.0], [0.0, 6.0], [12.0, 12.0]]),
        scale=1.0,
        return_lse=True,
        return_weights=True,
    )
    exact = [float(Fraction(n, 6)) for n in (1, 2, 3)]
    np.testing.assert_allclose(weights, [exact], rtol=1e-15)
    np.testing.assert_allclose(out, [[7.0, 8.0]], rtol=1e-15)
    np.testing.assert_allclose(lse, [np.log(6.0)], rtol=1e-15)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [[0, 1, 2], [0, 1, 2]]),
        ({"is_causal": True}, [[0], [0, 1]]),
        ({"is_causal": True, "causal_align": "bottom_right"}, [[0, 1], [0, 1, 2]]),
        (
            {"is_causal": True, "causal_align": "bottom_right", "window_size": 1},
            [[1], [2]],
        ),
    ],
    ids=["all", "top-left", "bottom-right", "window-1"],
)
def test_allowed_keys_of_two_queries_and_three_keys(options, expected):
    assert [list(reference.allowed_keys(i, 2, 3, **options)) for i in range(2)] == expected


def test_more_queries_than_keys_leave_the_first_ones_blind_bottom_right():
    seen = [
        list(reference.allowed_keys(i, 3, 1, is_causal=True, causal_align="bottom_right"))
        for i in range(3)
    ]
    assert seen == [[], [], [0]]


def test_explicit_allowed_keys_equal_attention_over_only_those_keys():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((5, 3)) for _ in range(3))
    allowed = np.zeros((5, 5), bool)
    allowed[:, [1, 4]] = True
    np.testing.assert_allclose(
        reference.attention(q, k, v, allowed=allowed),
        reference.attention(q, k[[1, 4]], v[[1, 4]]),
        rtol=1e-14,
    )


def test_a_hidden_nan_is_never_touched():
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((4, 3)) for _ in range(3))
    clean = reference.attention(q, k, v, is_causal=True)
    k[3], v[3] = np.nan, np.nan
    out = reference.attention(q, k, v, is_causal=True)
    np.testing.assert_array_equal(out[:3], clean[:3])
    assert np.isnan(out[3]).all()


def test_order_of_operations_scale_added_softcap_hidden():
    # one query, two keys: scores 3 and 1, +1 on the second, capped at 2; a third key is hidden
    out, lse = reference.attention(
        np.array([[1.0]]),
        np.array([[6.0], [2.0], [9.0]]),
        np.eye(3),
        np.array([[0.0, 1.0, -np.inf]]),
        scale=0.5,
        softcap=2.0,
        return_lse=True,
    )
    scores = 2.0 * np.tanh(np.array([3.0, 2.0]) / 2.0)
    expected = np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose(out[0], [*expected, 0.0], rtol=1e-14)
    np.testing.assert_allclose(lse, np.log(np.exp(scores).sum()), rtol=1e-14)


def test_dropout_without_a_seed_is_refused():
    one = np.ones((1, 1))
    with pytest.raises(ValueError, match="dropout_seed with dropout_p, got None"):
        reference.attention(one, one, one, dropout_p=0.5)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"causal_align": "middle"}, ValueError),
        ({"window_size": 2}, ValueError),
        ({"attn_mask": np.ones((2, 2), int)}, TypeError),
        ({"attn_mask": np.ones((3, 2), bool)}, ValueError),
    ],
    ids=["corner", "window-alone", "integer-mask", "mask-shape"],
)
def test_the_oracle_refuses_what_the_contract_refuses(options, error):
    two = np.ones((2, 2))
    with pytest.raises(error):
        reference.attention(two, two, two, **options)


def test_the_oracle_reads_bfloat16_masks():
    torch = pytest.importorskip("torch")
    two = np.eye(2)
    mask = torch.tensor([[0.0, -torch.inf], [0.0, 0.0]], dtype=torch.bfloat16)
    np.testing.assert_allclose(reference.attention(two, two, two, mask)[0], [1.0, 0.0])
