"""Spans, clear parts and groups agree with the mask they stand for."""

import numpy as np
import pytest
import torch

from attncourse import masks, scores, tiles

LIMITS = [(0, None), (3, None), (-4, None), (0, 1), (2, 3), (-3, 4), (0, 50)]


@pytest.mark.parametrize(("shift", "window_size"), LIMITS)
@pytest.mark.parametrize("block", [1, 2, 3, 8])
def test_span_and_clear_are_what_the_mask_says(shift, window_size, block):
    seq_len_q, seq_len_kv = 8, 11
    gap = np.arange(seq_len_q)[:, None] + shift - np.arange(seq_len_kv)
    mask = masks.visible(gap, window_size)
    for rows in tiles.blocks(0, seq_len_q, block):
        seen = np.flatnonzero(mask[rows].any(axis=0))
        by_all = np.flatnonzero(mask[rows].all(axis=0))
        span = tiles.span(rows, seq_len_kv, shift, window_size)
        clear = tiles.clear(rows, seq_len_kv, shift, window_size)
        np.testing.assert_array_equal(np.arange(seq_len_kv)[span], seen)
        np.testing.assert_array_equal(np.arange(seq_len_kv)[clear], by_all)


@pytest.mark.parametrize(("shift", "window_size"), LIMITS)
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("block", [1, 3, 8])
def test_finishing_in_place_is_finishing(shift, window_size, softcap, block):
    raw, masks_met = torch.randn(2, 8, 11), {}
    hiding = {"is_causal": True, "shift": shift, "window_size": window_size, "softcap": softcap}
    for rows in tiles.blocks(0, 8, block):
        for cols in [*tiles.blocks(0, 11, 4), slice(0, 0)]:
            mine = raw[:, rows, cols].clone()
            expected, seen = scores.finish(mine.clone(), rows, cols, **hiding)
            found, ours = tiles.finish_in_place(mine, rows, cols, masks_met, **hiding)
            assert torch.equal(found, expected)
            blind = ~seen.any(-1)
            assert torch.equal(~ours.any(-1), blind) if ours is not None else not blind.any()
            if ours is None and softcap is None:
                assert found.data_ptr() == mine.data_ptr()


def test_what_is_no_position_is_left_to_finish():
    raw, mask = torch.zeros(2, 3), torch.tensor([True, False, True])
    hiding = {"is_causal": True, "attn_mask": mask}
    found, seen = tiles.finish_in_place(raw.clone(), slice(0, 2), slice(0, 3), {}, **hiding)
    assert seen.tolist() == [[True, False, False], [True, False, False]]
    assert torch.equal(found, scores.finish(raw, slice(0, 2), slice(0, 3), **hiding)[0])
    assert tiles.finish_in_place(raw, slice(0, 2), slice(0, 3), {})[1] is None


def test_key_blocks_cover_the_span_once():
    cut = tiles.key_blocks(slice(4, 7), 20, 3, is_causal=True, shift=2, window_size=5)
    assert [(cols.start, cols.stop) for cols in cut] == [(2, 5), (5, 8), (8, 9)]
    assert tiles.key_blocks(slice(0, 2), 5, 8, is_causal=False) == [slice(0, 5)]
    assert tiles.key_blocks(slice(0, 2), 5, 8, is_causal=True, shift=-2) == []


@pytest.mark.parametrize("library", [np, torch], ids=["numpy", "torch"])
def test_a_group_shares_its_head_without_a_copy(library):
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((2, 6, 3, 4)), rng.standard_normal((2, 2, 4, 5))
    repeated = np.repeat(right, 3, axis=1)
    make = library.asarray if library is np else torch.from_numpy
    product = tiles.by_group(make(left), make(right))
    np.testing.assert_allclose(product, left @ repeated, rtol=1e-12)
    sums = tiles.sum_by_group(make(left), make(left @ repeated), 2)
    expected = (left.swapaxes(-1, -2) @ (left @ repeated)).reshape(2, 2, 3, 4, 5).sum(axis=2)
    np.testing.assert_allclose(sums, expected, rtol=1e-12)
    assert tuple(tiles.fold(make(left), 2).shape) == (2, 2, 9, 4)
    np.testing.assert_array_equal(tiles.unfold(tiles.fold(make(left), 2), 6), left)


def test_without_a_head_axis_there_is_nothing_to_fold():
    rows = np.ones((3, 4))
    assert tiles.fold(rows, 1) is rows
    assert tiles.unfold(rows, 1) is rows
    assert tiles.by_group(rows, np.ones((4, 2))).shape == (3, 2)
    assert tiles.sum_by_group(rows, rows, 1).shape == (4, 4)
