"""What strips alone must keep: they touch only what they may see, and hold little at once.

That strips of any height give the right answer, `test_ladder` shows.
"""

import ladder_cases as cases
import pytest
import torch

from attncourse import reference
from attncourse.rungs import batched, strips

pytestmark = pytest.mark.ladder


@pytest.mark.parametrize("strip", [None, 5])
@pytest.mark.parametrize("window", [{}, {"window_size": 6}], ids=["causal", "window"])
def test_the_past_does_not_know_the_future(window, strip):
    cases.assert_the_past_stays(cases.on(strips), {"is_causal": True} | window, strip=strip)


def test_no_key_outside_the_window_is_touched():
    query, key, value = cases.inputs("wide")
    call = {"is_causal": True, "causal_align": "bottom_right", "window_size": 2}
    expected = cases.on(strips)(query, key, value, **call, strip=2)
    # Query 0 stands at key 4: it is the first and sees keys 3 and 4.
    key[..., :3, :], value[..., :3, :] = torch.nan, torch.nan
    assert torch.equal(cases.on(strips)(query, key, value, **call, strip=2), expected)
    key[..., 3, :] = torch.nan
    assert cases.on(strips)(query, key, value, **call, strip=2)[..., 0, :].isnan().all()


def test_keys_that_a_mask_hides_from_all_are_harmless():
    tensors = cases.inputs("grouped")
    mask = torch.ones(7, 8, dtype=torch.bool)
    mask[:, 2], mask[4] = False, False
    clean = cases.gradients(cases.on(strips), tensors, {"attn_mask": mask, "enable_gqa": True})
    query, key, value = (x.clone() for x in tensors)
    key[..., 2, :], value[..., 2, :] = torch.nan, torch.inf
    call = {"attn_mask": mask, "enable_gqa": True}
    ours = cases.gradients(cases.on(strips), (query, key, value), call, strip=2)
    cases.assert_same_gradients(ours, clean)


@pytest.mark.parametrize("window_size", [None, 24], ids=["all-the-past", "window"])
def test_a_strip_of_scores_is_the_largest_thing(window_size):
    query, key, value = (torch.randn(1, 512, 8) for _ in range(3))
    with cases.LargestTensor() as largest:
        cases.on(strips)(query, key, value, is_causal=True, window_size=window_size, strip=16)
    assert largest.numbers <= 16 * 512
    if window_size:
        assert largest.numbers <= max(16 * (window_size + 16), query.numel())
    with cases.LargestTensor() as whole:
        cases.on(batched)(query, key, value, is_causal=True)
    assert whole.numbers >= 512 * 512


def test_low_precision_is_summed_in_float32():
    query, key, value = cases.inputs("wide", dtype=torch.bfloat16)
    expected = reference.attention(query, key, value)
    out = cases.on(strips)(query, key, value)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.double(), torch.from_numpy(expected), rtol=2**-8, atol=1e-6)
