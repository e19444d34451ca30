"""The simulated cluster: its limits are the ones that can be worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from attncourse.parallel import budget, cluster
from attncourse.parallel.budget import Call
from attncourse.parallel.cluster import Machine

BIG = Call(8, 2**17, "zigzag", True, heads=32, kv_heads=8, width=128, value_width=128, itemsize=2)
FREE = Machine(inside=1e30, between=1e30, latency=0.0)


def test_without_a_network_zigzag_is_perfect_and_plain_waits():
    # plain: the last rank has 2R - 1 of R² halves of blocks, everybody else waits for it
    for ranks in (2, 8, 64):
        zigzag = cluster.ring(replace(BIG, world_size=ranks), FREE)
        plain = cluster.ring(replace(BIG, world_size=ranks, schedule="plain"), FREE)
        assert zigzag.efficiency == pytest.approx(1.0)
        assert plain.efficiency == pytest.approx(ranks / (2 * ranks - 1), rel=1e-3)


def test_a_link_twice_as_slow_takes_twice_as_long_where_it_is_the_limit():
    call = replace(BIG, world_size=256, seq_len=2**14)
    slow = [
        cluster.ring(call, Machine(inside=speed, between=speed, latency=0.0)).seconds
        for speed in (1e9, 0.5e9)
    ]
    assert slow[1] / slow[0] == pytest.approx(2, rel=0.01)
    hops = 255 * budget.keys_of(call).max() / 1e9
    assert slow[0] == pytest.approx(hops, rel=0.01)


@pytest.mark.parametrize("tokens", [2000, 8000])
def test_a_hop_hides_behind_its_block_from_the_known_length_on(tokens):
    # Full attention: 4·E·c²·H / F against 2·c·E·2·Hkv / B, so c = (F / B)·(Hkv / H)
    machine = Machine(flops=4e14, inside=5e10, between=5e10, latency=0.0)
    assert machine.flops / machine.between * BIG.kv_heads / BIG.heads == 2000
    for factor, hidden in ((0.8, False), (1.25, True)):
        call = replace(BIG, seq_len=int(8 * 2000 * factor), schedule="plain", is_causal=False)
        assert (cluster.ring(call, machine).efficiency > 0.999) == hidden


def test_latency_alone_costs_one_hop_each():
    call = replace(BIG, world_size=64, seq_len=64)
    machine = Machine(flops=1e30, inside=1e30, between=1e30, latency=1e-3)
    assert cluster.ring(call, machine).seconds == pytest.approx(63e-3)


def test_only_the_hops_between_hosts_are_slow():
    links = Machine(per_host=4, inside=10.0, between=1.0).ring_links(8)
    assert links.tolist() == [10, 10, 10, 1, 10, 10, 10, 1]
    assert Machine(per_host=8, inside=10.0, between=1.0).ring_links(8).tolist() == [10] * 8


def test_what_bounds_what():
    assert cluster.bound(replace(BIG, world_size=8)) == "compute"
    assert cluster.bound(replace(BIG, world_size=8, schedule="plain")) == "balance"
    assert cluster.bound(replace(BIG, world_size=1024)) == "link"
    assert cluster.bound(replace(BIG, seq_len=2**22)) == "memory"


def test_memory_shrinks_with_the_number_of_ranks():
    held = [cluster.held(replace(BIG, world_size=ranks)) for ranks in (2, 4, 8)]
    np.testing.assert_allclose(held, [4 * held[2], 2 * held[2], held[2]], rtol=0.01)


def test_ulysses_moves_less_than_the_ring_in_time():
    call = replace(BIG, world_size=32, seq_len=2**15)
    assert cluster.ulysses(call) < cluster.ring(call).seconds
    assert cluster.ulysses(replace(call, world_size=1)) == pytest.approx(
        cluster.ring(replace(call, world_size=1)).seconds
    )
    with pytest.raises(ValueError, match="64 ranks and 32 query heads"):
        cluster.ulysses(replace(call, world_size=64))


def test_bytes_by_hand():
    # 4 ranks, 8 tokens, 1 head of width 1, 1 byte a number: 16 numbers of keys and values
    call = Call(4, 8, width=1, value_width=1, heads=4, kv_heads=4, itemsize=1)
    assert budget.bytes_sent("ring", call) == 3 * 64
    assert budget.bytes_sent("ring", call, "backward") == 3 * 64 + 3 * 64 * 4
    # Ulysses: three quarters of queries, keys, values and outputs leave home
    assert budget.bytes_sent("ulysses", call) == 3 * (4 * 32) // 4
    assert budget.bytes_held("ring", call).tolist() == [2 * 4 * 2 * 4] * 4


@pytest.mark.parametrize("what", ["sent", "held"])
def test_an_unknown_method_is_named(what):
    function = budget.bytes_sent if what == "sent" else budget.bytes_held
    with pytest.raises(ValueError, match="'star'"):
        function("star", BIG)


def test_a_thousand_devices_are_simulated():
    timeline = cluster.ring(replace(BIG, world_size=1024, seq_len=2**20))
    assert timeline.nbytes.shape == (1023, 1024)
    assert 0 < timeline.efficiency < 1
