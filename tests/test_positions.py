"""Positions, held to their papers' properties."""

import numpy as np
import pytest

from attncourse import positions


def test_sinusoidal_is_the_papers_formula():
    table = positions.sinusoidal(7, 6)
    for t in range(7):
        for i in range(3):
            angle = t / 10000 ** (2 * i / 6)
            assert table[t, 2 * i] == pytest.approx(np.sin(angle), abs=1e-15)
            assert table[t, 2 * i + 1] == pytest.approx(np.cos(angle), abs=1e-15)


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
def test_rotary_keeps_norms_and_sees_only_differences(pairing):
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, 1, 8))
    turn = lambda x, t: positions.rotary(x, [t], pairing=pairing)  # noqa: E731
    np.testing.assert_allclose(np.linalg.norm(turn(q, 5)), np.linalg.norm(q), rtol=1e-14)
    near, far = (turn(q, 3 + far) @ turn(k, far).T for far in (0, 1000))
    np.testing.assert_allclose(near, far, rtol=1e-9)
    assert abs(near - turn(q, 4) @ turn(k, 0).T) > 1e-3, "another distance, another score"


def test_the_two_pairings_are_one_rotation_in_another_order():
    x = np.random.default_rng(1).standard_normal((2, 5, 8))
    order = np.r_[0:8:2, 1:8:2]  # interleaved components, brought to halves
    np.testing.assert_allclose(
        positions.rotary(x, pairing="interleaved")[..., order],
        positions.rotary(x[..., order], pairing="half"),
        rtol=1e-14,
    )


def test_rotary_interleaved_is_a_complex_product():
    x = np.random.default_rng(2).standard_normal((4, 6))
    angle = np.arange(4)[:, None] * 10000.0 ** (-np.arange(3) / 3)
    turned = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angle)
    got = positions.rotary(x)
    np.testing.assert_allclose(got[:, 0::2] + 1j * got[:, 1::2], turned, rtol=1e-14)


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
def test_rotary_takes_tensors_and_keeps_their_type(pairing):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(3).standard_normal((2, 5, 8)).astype(np.float32)
    turned = positions.rotary(torch.from_numpy(x), pairing=pairing)
    assert turned.dtype == torch.float32
    np.testing.assert_allclose(turned.numpy(), positions.rotary(x, pairing=pairing), rtol=1e-6)


@pytest.mark.parametrize(
    ("num_heads", "exponents"),
    [
        (1, [8]),
        (8, range(1, 9)),
        (16, np.arange(1, 17) / 2),
        (12, [*range(1, 9), 0.5, 1.5, 2.5, 3.5]),
        (6, [2, 4, 6, 8, 1, 3]),
    ],
    ids=str,
)
def test_alibi_slopes_are_the_papers_and_its_codes(num_heads, exponents):
    np.testing.assert_allclose(
        positions.alibi_slopes(num_heads), 2.0 ** -np.array([*exponents], float), rtol=1e-15
    )


def test_alibi_bias_is_zero_at_the_own_key_and_falls_with_distance():
    bias = positions.alibi_bias(2, 2, 4, align="bottom_right")
    np.testing.assert_allclose(bias[0], -(2.0**-4) * np.array([[2, 1, 0, 1], [3, 2, 1, 0]]))
    assert bias.shape == (2, 2, 4)


def test_learned_positions_are_a_trainable_table():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    table = positions.learned(50, 40)
    assert table.weight.shape == (50, 40)
    assert table.weight.requires_grad
    assert table.weight.std().item() == pytest.approx(0.02, rel=0.1)


def test_the_base_sets_the_slowest_turn():
    x = np.array([[0.0, 0.0, 1.0, 0.0]])  # only the second pair, which turns by 1 / base^(1/2)
    for base in (100.0, 10000.0):
        turned = positions.rotary(x, [1], base=base)
        np.testing.assert_allclose(turned[0, 2:], [np.cos(base**-0.5), np.sin(base**-0.5)])
        assert positions.sinusoidal(2, 4, base)[1, 2] == pytest.approx(np.sin(base**-0.5))


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match="x must hold floating-point numbers, got int64"):
        positions.rotary(np.array([[1, 2], [3, 4]]))
    np.testing.assert_array_equal(positions.alibi_slopes(np.int64(6)), positions.alibi_slopes(6))
    with pytest.raises(ValueError, match="width must be even, got 5"):
        positions.sinusoidal(3, 5)
    with pytest.raises(ValueError, match="width must be even, got 3"):
        positions.rotary(np.ones((2, 3)))
    with pytest.raises(ValueError, match="'interleaved' or 'half', got 'pairs'"):
        positions.rotary(np.ones((2, 4)), pairing="pairs")
    with pytest.raises(ValueError, match=r"one number for each of 3 tokens, got shape \(2,\)"):
        positions.rotary(np.ones((3, 4)), [0, 1])
    with pytest.raises(ValueError, match=r"shape \(\.\.\., L, E\), got \(4,\)"):
        positions.rotary(np.ones(4))
    with pytest.raises(ValueError, match="seq_len must be at least 0, got -4"):
        positions.sinusoidal(-4, 4)
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        positions.sinusoidal(4, 0)
    with pytest.raises(ValueError, match="base must be positive, got 0"):
        positions.sinusoidal(4, 4, base=0)
    with pytest.raises(ValueError, match="max_len must be at least 1, got 0"):
        positions.learned(0, 4)
    with pytest.raises(TypeError, match="seq_len_q must be an integer, got float"):
        positions.alibi_bias(2, 2.5)
    with pytest.raises(ValueError, match="num_heads must be at least 1, got 0"):
        positions.alibi_slopes(0)
