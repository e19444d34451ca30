"""Heads that share a key head: products, sums, and what nobody sees."""

import numpy as np
import pytest
import torch

from attncourse import grouped


@pytest.mark.parametrize("library", [np, torch], ids=["numpy", "torch"])
def test_a_group_shares_its_head_without_a_copy(library):
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((2, 6, 3, 4)), rng.standard_normal((2, 2, 4, 5))
    repeated = np.repeat(right, 3, axis=1)
    make = library.asarray if library is np else torch.from_numpy
    product = grouped.product(make(left), make(right))
    np.testing.assert_allclose(product, left @ repeated, rtol=1e-12)
    sums = grouped.summed_product(make(left), make(left @ repeated), 2)
    expected = (left.swapaxes(-1, -2) @ (left @ repeated)).reshape(2, 2, 3, 4, 5).sum(axis=2)
    np.testing.assert_allclose(sums, expected, rtol=1e-12)
    assert tuple(grouped.stack(make(left), 2).shape) == (2, 2, 9, 4)
    np.testing.assert_array_equal(grouped.unstack(grouped.stack(make(left), 2), 6), left)


def test_without_a_head_axis_there_is_nothing_to_fold():
    rows = np.ones((3, 4))
    assert grouped.stack(rows, 1) is rows
    assert grouped.unstack(rows, 1) is rows
    assert grouped.product(rows, np.ones((4, 2))).shape == (3, 2)
    assert grouped.summed_product(rows, rows, 1).shape == (4, 4)


@pytest.mark.parametrize("lift", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_a_shared_head_keeps_what_any_of_its_queries_sees(lift):
    seen = np.zeros((1, 4, 2, 3), bool)
    seen[0, 1, 1, 0] = True  # head 1 sees key 0: it is served by key head 0
    seen[0, 2, 0, 2] = True  # head 2 sees key 2: it is served by key head 1
    values = np.full((1, 2, 3, 2), np.nan)
    values[0, 0, 0], values[0, 1, 2] = 5.0, 7.0
    cleaned = np.asarray(grouped.without_unseen(lift(values), lift(seen)))
    assert cleaned[0, :, :, 0].tolist() == [[5.0, 0.0, 0.0], [0.0, 0.0, 7.0]]
