"""Masks, held to loops that say in words who may see whom."""

import numpy as np
import pytest

from attncourse import masks

SIZES = [(1, 1), (3, 3), (2, 5), (5, 2), (4, 0), (0, 4)]


@pytest.mark.parametrize(("num_q", "num_kv"), SIZES, ids=str)
@pytest.mark.parametrize("align", ["top_left", "bottom_right"])
@pytest.mark.parametrize("size", [None, 1, 2, 99], ids=str)
def test_causal_and_window_say_what_the_words_say(num_q, num_kv, align, size):
    expected = np.zeros((num_q, num_kv), bool)
    for i in range(num_q):
        own = i if align == "top_left" else i + num_kv - num_q
        for j in range(num_kv):
            expected[i, j] = j <= own and (size is None or j > own - size)
    if size is None:
        got = masks.causal(num_q, num_kv, align=align)
    else:
        got = masks.window(num_q, num_kv, size=size, align=align)
    assert got.dtype == bool
    np.testing.assert_array_equal(got, expected)


def test_newest_query_sees_the_whole_cache_bottom_right():
    assert masks.causal(1, 6, align="bottom_right").all()
    assert masks.causal(1, 6).sum() == 1


def test_padding_hides_what_was_appended():
    mask = masks.padding([2, 0, 3], 3)
    assert mask.shape == (3, 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[True, True, False], [False] * 3, [True] * 3]


def test_documents_and_blocks_see_only_themselves():
    assert masks.document([1, 1, 2], [2, 1]).tolist() == [
        [False, True],
        [False, True],
        [True, False],
    ]
    assert masks.document(np.zeros((4, 5), dtype=int)).shape == (4, 5, 5)
    np.testing.assert_array_equal(masks.block(5, size=2), masks.document([0, 0, 1, 1, 2]))
    assert masks.block(2, 3, size=2).tolist() == [[True, True, False]] * 2


def test_masks_combine_with_and():
    both = masks.causal(4) & masks.document([0, 0, 1, 1])
    assert both.astype(int).tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"align must be one of .* got 'centre'"):
        masks.causal(2, 3, align="centre")
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        masks.window(3, size=0)
    with pytest.raises(ValueError, match="size must be at least 1, got -1"):
        masks.block(3, size=-1)
    with pytest.raises(ValueError, match=r"0 … 3, got \[4\]"):
        masks.padding([4], 3)
    with pytest.raises(ValueError, match=r"0 … 3, got \[2, -1\]"):
        masks.padding([2, -1], 3)
    with pytest.raises(ValueError, match=r"one number a sequence, got shape \(1, 2\)"):
        masks.padding([[1, 2]], 3)
    with pytest.raises(TypeError, match="seq_len_kv must be an integer, got float"):
        masks.padding([1], 4.5)
    with pytest.raises(ValueError, match="must not be negative, got -4 and -4"):
        masks.block(-4, size=2)
    with pytest.raises(TypeError, match="ids_q must be integers, got bool"):
        masks.document(np.ones(3, dtype=bool))
    with pytest.raises(TypeError, match="ids_kv must be integers, got float64"):
        masks.document([0, 1], [0.0, 1.0])
    with pytest.raises(ValueError, match="one number a position, got the single number 3"):
        masks.document(3)
    with pytest.raises(TypeError, match="lengths must be integers, got float64"):
        masks.padding([1.9, 2.2], 3)
    with pytest.raises(TypeError, match="size must be an integer, got float"):
        masks.window(4, size=2.5)
    with pytest.raises(TypeError, match="size must be an integer, got float"):
        masks.block(4, size=2.5)
    with pytest.raises(ValueError, match="must not be negative, got -1 and 2"):
        masks.causal(-1, 2)
