"""Attention rollout: the product of the layers, each averaged with the identity."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from attncourse.layers.rollout import rollout  # noqa: E402


def some_weights(layers=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(layers, 2, 4, 5, 5, generator=generator, dtype=torch.float64)
    return list((2 * scores).softmax(-1))


def test_it_sums_over_all_paths():
    weights = some_weights()
    steps = [0.5 * w[1].mean(0).numpy() + 0.5 * np.eye(5) for w in weights]
    paths = np.zeros((5, 5))
    for i, a, b, j in np.ndindex(5, 5, 5, 5):  # from the last layer's token down to the input
        paths[i, j] += steps[2][i, a] * steps[1][a, b] * steps[0][b, j]
    np.testing.assert_allclose(rollout(weights)[1], paths, rtol=1e-12)


def test_rows_stay_shares_and_the_order_of_layers_counts():
    weights = some_weights()
    flow = rollout(weights)
    torch.testing.assert_close(flow.sum(-1), torch.ones(2, 5).double())
    assert (rollout(weights[::-1]) - flow).abs().max() > 1e-3


def test_the_residual_s_share():
    weights = some_weights(layers=1)
    torch.testing.assert_close(rollout(weights, kept=0.0), weights[0].mean(1))
    torch.testing.assert_close(rollout(weights, kept=1.0), torch.eye(5).double().expand(2, 5, 5))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="at least one layer"):
        rollout([])
    with pytest.raises(ValueError, match=r"\(B, H, n, n\), got \(1, 2, 3, 4\)"):
        rollout([torch.ones(1, 2, 3, 4)])
    with pytest.raises(ValueError, match="layers must have the same n, got 3 and 4"):
        rollout([torch.ones(1, 2, 3, 3), torch.ones(1, 2, 4, 4)])
    with pytest.raises(ValueError, match="kept must lie in 0 to 1, got 2"):
        rollout([torch.ones(1, 2, 3, 3)], kept=2)
