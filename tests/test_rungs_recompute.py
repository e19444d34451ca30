"""What recomputing alone must keep: O(L) memory between the passes, types, no second derivative.

That tiles of any size give the right gradients, `test_ladder` shows.
"""

import ladder_cases as cases
import pytest
import torch

from attncourse.rungs import attention, batched, recompute

pytestmark = pytest.mark.ladder

TILES = {"default": {}, "3x2": {"block_q": 3, "block_kv": 2}}
tile = pytest.mark.parametrize("tile", TILES.values(), ids=TILES)


@pytest.mark.parametrize("shape", [(7, 8), (1, 8), (6, 1, 8), (1, 6, 7, 8), (7, 1), (8,)], ids=str)
def test_a_mask_broadcast_over_an_axis_gets_the_sum(shape):
    tensors = cases.inputs("grouped")
    mask = torch.randn(shape, dtype=torch.float64)
    call = {"attn_mask": mask, "enable_gqa": True}
    ours = cases.gradients(cases.on(recompute), tensors, call, block_q=2, block_kv=3)
    theirs = cases.gradients(cases.on(batched), tensors, call)
    assert ours[3].shape == shape
    cases.assert_same_gradients(ours, theirs)


def saved_numbers(function, seq_len, **call):
    """Count the numbers that autograd keeps between the two passes."""
    inputs = [torch.randn(1, seq_len, 8, requires_grad=True) for _ in range(3)]
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // 4
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = function(*inputs, **call)
    assert result.requires_grad
    return sum(kept.values())


def test_what_is_kept_grows_with_the_length_and_not_its_square():
    short, long = (
        saved_numbers(cases.on(recompute), n, block_q=32, block_kv=32) for n in (64, 256)
    )
    assert long == 4 * short == 256 * (4 * 8 + 2)
    assert saved_numbers(cases.on(batched), 256) > 256 * 256


def test_a_tile_is_the_largest_thing_on_both_ways():
    query, key, value = (torch.randn(1, 512, 8, requires_grad=True) for _ in range(3))
    with cases.LargestTensor() as largest:
        cases.on(recompute)(query, key, value, block_q=64, block_kv=64).sum().backward()
    assert largest.numbers <= 64 * 64


@pytest.mark.parametrize("window", [{}, {"window_size": 6}], ids=["causal", "window"])
@tile
def test_the_past_does_not_know_the_future(window, tile):
    cases.assert_the_past_stays(cases.on(recompute), {"is_causal": True} | window, **tile)


def test_keys_that_nobody_sees_are_harmless():
    tensors = cases.inputs("grouped")
    mask = torch.ones(7, 8, dtype=torch.bool)
    mask[:, 2], mask[4] = False, False
    call = {"attn_mask": mask, "enable_gqa": True, "softcap": 2.0}
    clean = cases.gradients(cases.on(recompute), tensors, call)
    query, key, value = (x.clone() for x in tensors)
    key[..., 2, :], value[..., 2, :] = torch.nan, torch.inf
    ours = cases.gradients(cases.on(recompute), (query, key, value), call, block_q=2, block_kv=3)
    cases.assert_same_gradients(ours, clean)


def test_only_what_is_asked_for_gets_a_gradient():
    query, key, value = cases.inputs("grouped")
    mask = torch.zeros(7, 8, dtype=torch.float64)
    value.requires_grad_()
    out = attention(query, key, value, mask, enable_gqa=True, rung="recompute")
    out.sum().backward()
    assert query.grad is None
    assert mask.grad is None
    torch.testing.assert_close(value.grad.sum(), torch.tensor(2 * 6 * 7 * 3.0).double())


def test_a_loss_on_lse_alone_is_enough():
    query, key, value = (x.requires_grad_() for x in cases.inputs("wide"))
    _, lse = attention(query, key, value, return_lse=True, rung="recompute")
    ours = torch.autograd.grad(lse.sum(), (query, key))
    _, lse = cases.on(batched)(query, key, value, return_lse=True)
    cases.assert_same_gradients(ours, torch.autograd.grad(lse.sum(), (query, key)))


def test_gradients_of_gradients_are_refused():
    query, key, value = (x.requires_grad_() for x in cases.inputs("wide"))
    out = cases.on(recompute)(query, key, value)
    with pytest.raises(RuntimeError, match="no second derivatives; take rung='batched'"):
        torch.autograd.grad(out.pow(2).sum(), query, create_graph=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_low_precision_keeps_its_type_on_both_ways(dtype):
    tensors = [x.requires_grad_() for x in cases.inputs("wide", dtype=dtype)]
    out = cases.on(recompute)(*tensors, is_causal=True, block_q=2, block_kv=2)
    grads = torch.autograd.grad(out.sum(), tensors)
    wide = [x.detach().double().requires_grad_() for x in tensors]
    expected = torch.autograd.grad(cases.on(batched)(*wide, is_causal=True).sum(), wide)
    tolerance = torch.finfo(dtype).eps
    for ours, theirs in zip(grads, expected, strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.double(), theirs, rtol=2 * tolerance, atol=tolerance)


def test_autocast_rounds_neither_way():
    tensors = [x.requires_grad_() for x in cases.inputs("wide", dtype=torch.float32)]
    out = cases.on(recompute)(*tensors)
    grads = torch.autograd.grad(out.sum(), tensors)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = cases.on(recompute)(*tensors)
        cast_grads = torch.autograd.grad(cast.sum(), tensors)
    assert torch.equal(cast, out)
    assert all(map(torch.equal, cast_grads, grads))
