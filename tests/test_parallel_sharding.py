"""Who holds which tokens and heads: everything exactly once, evenly, and balanced when causal."""

import numpy as np
import pytest

from attncourse import masks
from attncourse.parallel import sharding
from attncourse.parallel.budget import Call, pairs

each_schedule = pytest.mark.parametrize("schedule", sharding.SCHEDULES)
each_size = pytest.mark.parametrize(
    ("seq_len", "world_size"), [(64, 4), (67, 4), (13, 5), (3, 4), (0, 2), (7, 1)], ids=str
)


@each_schedule
@each_size
def test_every_token_has_one_home(seq_len, world_size, schedule):
    places = [
        token
        for rank in range(world_size)
        for run in sharding.runs(seq_len, rank, world_size, schedule)
        for token in range(seq_len)[run]
    ]
    assert sorted(places) == list(range(seq_len))
    held = sharding.lengths(seq_len, world_size, schedule)
    assert sum(held) == seq_len
    assert max(held) - min(held) <= 1


@each_schedule
@each_size
def test_unshard_undoes_shard(seq_len, world_size, schedule):
    whole = np.random.default_rng(0).normal(size=(2, seq_len, 3))
    parts = [sharding.shard(whole, rank, world_size, schedule) for rank in range(world_size)]
    np.testing.assert_array_equal(sharding.unshard(parts, schedule), whole)


@each_schedule
@pytest.mark.parametrize("is_causal", [False, True])
@each_size
def test_meetings_cover_what_may_be_seen_once(seq_len, world_size, schedule, is_causal):
    covered = np.zeros((seq_len, seq_len), dtype=int)
    order = [
        sharding.shard(np.arange(seq_len), rank, world_size, schedule, axis=0)
        for rank in range(world_size)
    ]
    for rank in range(world_size):
        own = sharding.runs(seq_len, rank, world_size, schedule)
        for source in range(world_size):
            other = sharding.runs(seq_len, source, world_size, schedule)
            for rows, cols, triangle in sharding.meetings(own, other, is_causal=is_causal):
                block = np.ix_(order[rank][rows], order[source][cols])
                height, width = covered[block].shape
                covered[block] += np.tri(height, width, dtype=int) if triangle else 1
    wanted = masks.causal(seq_len) if is_causal else np.ones((seq_len, seq_len), dtype=bool)
    np.testing.assert_array_equal(covered, wanted)


@each_schedule
@pytest.mark.parametrize("is_causal", [False, True])
@each_size
def test_pairs_are_those_of_the_meetings(seq_len, world_size, schedule, is_causal):
    counted = pairs(Call(world_size, seq_len, schedule, is_causal))
    every = [sharding.runs(seq_len, rank, world_size, schedule) for rank in range(world_size)]
    for step in range(world_size):
        for rank in range(world_size):
            visitor = every[(rank - step) % world_size]
            wanted = sharding.visible_pairs(every[rank], visitor, is_causal=is_causal)
            assert counted[step, rank] == wanted


def test_zigzag_balances_a_causal_mask():
    plain = pairs(Call(4, 64, "plain")).sum(axis=0)
    zigzag = pairs(Call(4, 64, "zigzag")).sum(axis=0)
    assert plain.tolist() == [136, 392, 648, 904]
    assert zigzag.tolist() == [520] * 4
    steps = pairs(Call(4, 64, "zigzag"))
    assert (steps == steps[:, :1]).all()  # in every step too: nobody waits


@pytest.mark.parametrize(("heads", "kv_heads", "world_size"), [(6, 3, 4), (8, 2, 4), (5, 1, 3)])
def test_heads_are_dealt_out_with_the_key_heads_that_they_need(heads, kv_heads, world_size):
    group_size, dealt = heads // kv_heads, []
    for rank in range(world_size):
        own, needed = sharding.heads_of(heads, kv_heads, rank, world_size)
        mine = range(heads)[own]
        dealt += mine
        assert {head // group_size for head in mine} == set(range(kv_heads)[needed])
    assert dealt == list(range(heads))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sharding.runs(8, 0, 2, "striped"), "schedule must be one of"),
        (lambda: sharding.runs(8, 2, 2), r"rank must lie in 0 … 1, got 2"),
        (lambda: sharding.runs(-1, 0, 2), "seq_len must be at least 0, got -1"),
        (lambda: sharding.heads_of(2, 2, 0, 3), "3 ranks and 2 query heads"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
