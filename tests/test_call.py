"""One call: the order of operations on any block, in both libraries, and what it asks for."""

from dataclasses import replace

import numpy as np
import pytest

from attncourse import masks, tiles
from attncourse.call import Call
from attncourse.conformance._table import ASKING
from attncourse.features import FEATURES

torch = pytest.importorskip("torch")
lifts = pytest.mark.parametrize("lift", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
LIMITS = [(0, None), (3, None), (-4, None), (0, 1), (2, 3), (-3, 4), (0, 50)]


def square(seq_len_q, seq_len_kv, attn_mask=None, **asked):
    return Call((0, seq_len_q), (0, seq_len_kv), 1.0, attn_mask, **asked)


def everything(rng, lift):
    mask = np.where(rng.random((2, 1, 6, 9)) < 0.7, rng.standard_normal((2, 1, 6, 9)), -np.inf)
    return square(
        *(6, 9, lift(mask)),
        is_causal=True,
        shift=3,
        window_size=5,
        softcap=2.0,
        alibi_slopes=lift(np.array([0.5, 0.25, 0.1])),
    )


@lifts
def test_a_block_is_cut_out_of_the_whole(lift):
    rng = np.random.default_rng(0)
    raw = rng.standard_normal((2, 3, 6, 9))
    call = everything(rng, lift)
    whole, seen = call.finish(lift(raw.copy())), call.seen(lift(raw))
    rows, cols = slice(2, 5), slice(4, 9)
    block = call.at(rows, cols)
    part = block.finish(lift(raw[..., rows, cols].copy()))
    np.testing.assert_array_equal(np.asarray(part), np.asarray(whole)[..., rows, cols])
    np.testing.assert_array_equal(block.seen(part), np.asarray(seen)[..., rows, cols])
    np.testing.assert_array_equal(np.asarray(whole) == -np.inf, ~np.broadcast_to(seen, raw.shape))
    few = call.of_heads(slice(1, 3)).finish(lift(raw[:, 1:].copy()))
    np.testing.assert_array_equal(few, np.asarray(whole)[:, 1:])


@lifts
@pytest.mark.parametrize(("shift", "window_size"), LIMITS)
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("block", [1, 3, 8])
def test_position_hides_what_the_mask_of_positions_says(shift, window_size, softcap, block, lift):
    raw = np.random.default_rng(1).standard_normal((2, 8, 11))
    limits = {"is_causal": True, "shift": shift, "window_size": window_size}
    call = square(8, 11, softcap=softcap, **limits)
    gap = np.arange(8)[:, None] + shift - np.arange(11)
    mask = masks.visible(gap, window_size)
    capped = raw if softcap is None else softcap * np.tanh(raw / softcap)
    expected = np.where(mask, capped, -np.inf)
    assert [[call.sees(i, j) for j in range(11)] for i in range(8)] == mask.tolist()
    for rows in tiles.blocks(0, 8, block):
        for cols in [*tiles.blocks(0, 11, 4), slice(0, 0)]:
            tile, mine = call.at(rows, cols), lift(raw[:, rows, cols].copy())
            found, blind = np.asarray(tile.finish(mine)), tile.blind(mine)
            np.testing.assert_allclose(found, expected[:, rows, cols], rtol=1e-15)
            sees_none = ~mask[rows, cols].any(-1, keepdims=True)
            blind = np.zeros_like(sees_none) if blind is None else np.asarray(blind)
            np.testing.assert_array_equal(blind, sees_none)


def test_a_call_without_a_mask_finishes_in_the_memory_of_the_scores():
    raw = torch.randn(2, 4, 4)
    assert square(4, 4, is_causal=True).finish(raw).data_ptr() == raw.data_ptr()


def test_softcap_does_not_lift_what_a_float_mask_hides():
    call = square(1, 2, attn_mask=np.array([[0.0, -np.inf]]), softcap=1.0)
    assert call.finish(np.zeros((1, 2))).tolist() == [[0.0, -np.inf]]
    assert call.seen(np.zeros(1)).tolist() == [[True, False]]
    assert call.softcap_slope(np.array([0.5, -np.inf])).tolist() == [0.75, 0.0]


def test_nothing_hidden_is_none_and_leaves_the_arrays_alone():
    raw, call = np.ones((2, 3)), square(2, 3)
    assert call.seen(raw) is None
    assert call.blind(raw) is None
    assert call.finish(raw) is raw
    assert call.drop(raw) is raw
    assert call.without_blind(raw) is raw
    assert np.shares_memory(call.cut(np.ones((3, 1)), raw)[1], raw)


@lifts
def test_a_key_that_no_query_sees_becomes_zero(lift):
    keys = np.full((5, 2), np.nan)
    keys[:3] = 1.0
    call = square(3, 5, is_causal=True)  # keys 3 and 4 lie in everybody's future
    assert np.isfinite(np.asarray(call.cut(lift(keys), lift(keys))[0])).all()
    hidden = replace(call, is_causal=False, attn_mask=lift(np.arange(5) < 3))
    assert np.isfinite(np.asarray(hidden.cut(lift(keys), lift(keys))[1])).all()


@lifts
def test_a_query_that_sees_no_key_becomes_zero(lift):
    query, asked = np.full((6, 2), np.nan), {"is_causal": True, "shift": -2}
    query[2:] = 1.0  # the first two stand before the first key
    assert np.isfinite(np.asarray(square(6, 3, **asked).without_blind(lift(query)))).all()
    behind = square(6, 3, is_causal=True, window_size=2)  # the last two have left all keys behind
    assert np.isfinite(np.asarray(behind.without_blind(lift(query[::-1].copy())))).all()
    mask = lift(np.arange(6)[:, None] >= 2)
    assert np.isfinite(np.asarray(square(6, 3, attn_mask=mask).without_blind(lift(query)))).all()


def test_key_blocks_cover_what_may_be_seen_once():
    call = square(9, 20, is_causal=True, shift=2, window_size=5)
    blocks = [part.cols for part in call.key_blocks(slice(4, 7), 3)]
    assert blocks == [slice(2, 5), slice(5, 8), slice(8, 9)]
    assert [part.rows for part in call.key_blocks(slice(4, 7), 3)] == [slice(4, 7)] * 3


@lifts
def test_dropout_of_a_block_is_cut_out_of_the_whole(lift):
    weights = lift(np.ones((2, 3, 6, 9)))
    call = square(6, 9, dropout_p=0.4, dropout_seed=5)
    whole = np.asarray(call.drop(weights))
    assert set(np.unique(whole)) == {0.0, 1 / 0.6}
    np.testing.assert_array_equal(call.survived(weights), whole)
    block = call.of_heads(slice(1, 3)).at(slice(1, 4), slice(3, 9))
    part = np.asarray(block.drop(weights[:, 1:, 1:4, 3:]))
    np.testing.assert_array_equal(part, whole[:, 1:, 1:4, 3:])


@pytest.mark.parametrize("feature", FEATURES)
def test_a_call_needs_what_it_asks_for(feature):
    lead = (1, 2) if feature in ("batch", "alibi", "gqa") else ()
    query = torch.ones(*lead, 3, 4, requires_grad=feature == "grad")
    key = torch.ones(*(1, 1) if feature == "gqa" else lead, 3, 4)
    needs = Call.of(query, key, key, **ASKING[feature]).needs
    implied = {"window": {"causal"}, "bottom_right": {"causal"}, "dropout_seed": {"dropout"}}
    assert needs == {feature} | implied.get(feature, set()) | ({"batch"} if lead else set())


@pytest.mark.parametrize("asking", ["query", "key", "value", "attn_mask", "alibi_slopes"])
def test_any_input_can_ask_for_gradients_but_not_under_no_grad(asking):
    inputs = dict.fromkeys(("query", "key", "value"), torch.ones(1, 3, 3))
    inputs |= {"attn_mask": torch.ones(3, 3), "alibi_slopes": torch.ones(1)}
    inputs[asking] = inputs[asking].clone().requires_grad_()
    assert "grad" in Call.of(**inputs).needs
    with torch.no_grad():
        assert "grad" not in Call.of(**inputs).needs


def test_what_changes_nothing_is_not_needed():
    query = np.ones((2, 3, 4))
    idle = {"enable_gqa": True, "causal_align": "bottom_right", "dropout_seed": 3}
    assert Call.of(query, query, query, **idle).needs == {"batch"}
