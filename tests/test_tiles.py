"""Spans and clear parts agree with the mask they stand for."""

import numpy as np
import pytest

from attncourse import masks, tiles

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


def test_key_blocks_cover_the_span_once():
    cut = tiles.key_blocks(slice(4, 7), 20, 3, is_causal=True, shift=2, window_size=5)
    assert [(cols.start, cols.stop) for cols in cut] == [(2, 5), (5, 8), (8, 9)]
    assert tiles.key_blocks(slice(0, 2), 5, 8, is_causal=False) == [slice(0, 5)]
    assert tiles.key_blocks(slice(0, 2), 5, 8, is_causal=True, shift=-2) == []
