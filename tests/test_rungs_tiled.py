"""What tiles alone must keep: any order of scores, nothing larger than a tile.

That tiles of any size give the right answer, `test_ladder` shows.
"""

import ladder_cases as cases
import pytest
import torch

from attncourse import reference
from attncourse.rungs import tiled

pytestmark = pytest.mark.ladder

TILES = {"default": {}, "3x2": {"block_q": 3, "block_kv": 2}, "1x1": {"block_q": 1, "block_kv": 1}}
tile = pytest.mark.parametrize("tile", TILES.values(), ids=TILES)


@pytest.mark.parametrize("gain", [1.0, 3000.0], ids=["mild", "huge-scores"])
@pytest.mark.parametrize("order", ["rising", "falling", "mixed"])
def test_the_maximum_may_come_early_or_late(order, gain):
    query, key, value = cases.inputs("wide")
    heights = torch.arange(9, dtype=torch.float64)[:, None]
    heights = {"rising": heights, "falling": -heights, "mixed": (heights * 5) % 9}[order]
    key = gain * (key + heights)
    expected = reference.attention(query, key, value, return_lse=True)
    result = cases.on(tiled)(query, key, value, block_q=2, block_kv=2, return_lse=True)
    cases.assert_like_oracle(result, expected, atol=1e-11 * gain)


def test_a_row_may_see_nothing_in_its_first_tiles():
    query, key, value = cases.inputs("wide")
    mask = torch.zeros(5, 9, dtype=torch.bool)
    mask[0, 7:], mask[1, 0], mask[3, 4:6] = True, True, True
    expected = reference.attention(query, key, value, mask, return_lse=True)
    result = cases.on(tiled)(query, key, value, mask, block_q=5, block_kv=2, return_lse=True)
    cases.assert_like_oracle(result, expected)
    assert not result[0][..., 2, :].any()


@pytest.mark.parametrize("window", [{}, {"window_size": 6}], ids=["causal", "window"])
@tile
def test_the_past_does_not_know_the_future(window, tile):
    cases.assert_the_past_stays(cases.on(tiled), {"is_causal": True} | window, **tile)


@pytest.mark.parametrize("is_causal", [False, True])
def test_keys_that_nobody_sees_are_harmless(is_causal):
    tensors = cases.inputs("grouped")
    mask = torch.ones(7, 8, dtype=torch.bool)
    # Key 5 is seen by query 3 in the mask alone: a causal mask hides it from that one too.
    mask[:, 2], mask[:, 5], mask[4] = False, False, False
    mask[3, 5] = is_causal
    call = {"attn_mask": mask, "enable_gqa": True, "is_causal": is_causal}
    clean = cases.gradients(cases.on(tiled), tensors, call)
    query, key, value = (x.clone() for x in tensors)
    for hidden in (2, 5):
        key[..., hidden, :], value[..., hidden, :] = torch.nan, torch.inf
    ours = cases.gradients(cases.on(tiled), (query, key, value), call, block_q=2, block_kv=3)
    cases.assert_same_gradients(ours, clean)


def test_a_tile_of_scores_is_the_largest_thing():
    query, key, value = (torch.randn(1, 512, 8) for _ in range(3))
    with cases.LargestTensor() as largest:
        cases.on(tiled)(query, key, value, block_q=64, block_kv=64)
    assert largest.numbers == 64 * 64


def test_low_precision_is_summed_in_float32():
    query, key, value = cases.inputs("wide", dtype=torch.float16)
    out = cases.on(tiled)(query, key, value, block_kv=2)
    assert out.dtype == torch.float16
    expected = torch.from_numpy(reference.attention(query, key, value))
    torch.testing.assert_close(out.double(), expected, rtol=2**-11, atol=1e-6)
