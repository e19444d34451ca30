"""The order of operations on any block, in both libraries."""

import numpy as np
import pytest

from attncourse import scores

torch = pytest.importorskip("torch")


def _options(rng):
    mask = np.where(rng.random((2, 1, 6, 9)) < 0.7, rng.standard_normal((2, 1, 6, 9)), -np.inf)
    slopes = np.array([0.5, 0.25, 0.1])
    return {
        "attn_mask": mask,
        "is_causal": True,
        "shift": 3,
        "window_size": 5,
        "softcap": 2.0,
        "alibi_slopes": slopes,
    }


@pytest.mark.parametrize("lift", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_a_block_is_cut_out_of_the_whole(lift):
    rng = np.random.default_rng(0)
    raw, options = lift(rng.standard_normal((2, 3, 6, 9))), _options(rng)
    for name in ("attn_mask", "alibi_slopes"):
        options[name] = lift(options[name])
    whole, seen = scores.finish(raw, slice(0, 6), slice(0, 9), **options)
    rows, cols = slice(2, 5), slice(4, 9)
    part, part_seen = scores.finish(raw[..., rows, cols], rows, cols, **options)
    np.testing.assert_array_equal(np.asarray(part), np.asarray(whole)[..., rows, cols])
    np.testing.assert_array_equal(np.asarray(part_seen), np.asarray(seen)[..., rows, cols])
    np.testing.assert_array_equal(np.asarray(whole) == -np.inf, ~np.broadcast_to(seen, whole.shape))


def test_softcap_does_not_lift_what_a_float_mask_hides():
    mask = np.array([[0.0, -np.inf]])
    out, seen = scores.finish(
        np.zeros((1, 2)), slice(0, 1), slice(0, 2), attn_mask=mask, softcap=1.0
    )
    assert out.tolist() == [[0.0, -np.inf]]
    assert seen.tolist() == [[True, False]]


def test_nothing_hidden_is_none_and_leaves_the_arrays_alone():
    raw = np.ones((2, 3))
    out, seen = scores.finish(raw, slice(0, 2), slice(0, 3))
    assert seen is None
    assert out is raw
    assert scores.drop_unseen(raw, None) is raw


@pytest.mark.parametrize("lift", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_a_shared_head_keeps_what_any_of_its_queries_sees(lift):
    seen = np.zeros((1, 4, 2, 3), bool)
    seen[0, 1, 1, 0] = True  # head 1 sees key 0: it is served by key head 0
    seen[0, 2, 0, 2] = True  # head 2 sees key 2: it is served by key head 1
    values = np.full((1, 2, 3, 2), np.nan)
    values[0, 0, 0], values[0, 1, 2] = 5.0, 7.0
    cleaned = np.asarray(scores.drop_unseen(lift(values), lift(seen)))
    assert cleaned[0, :, :, 0].tolist() == [[5.0, 0.0, 0.0], [0.0, 0.0, 7.0]]
