"""Predicted costs agree with counted FLOPs, counted bytes and measured memory."""

from pathlib import Path

import ladder_cases as cases
import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attncourse import reference
from attncourse.measure import cost, traffic
from attncourse.measure.peak_memory import peak_memory
from attncourse.rungs import by_hand, by_name

LIMITS = {
    "full": {},
    "causal": {"is_causal": True},
    "bottom-right": {"is_causal": True, "causal_align": "bottom_right"},
    "window": {"is_causal": True, "window_size": 30},
    "narrow-bottom-right": {"is_causal": True, "causal_align": "bottom_right", "window_size": 9},
}
limits = pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
HEIGHT = {"strips": {"strip": 32}, "tiled": {"block_q": 32}, "recompute": {"block_q": 32}}


@limits
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("rung", ["batched", "strips", "tiled", "recompute"])
def test_flops_are_those_that_torch_counts(rung, backward, limits):
    shapes = (2, 3, 90, 16), (2, 3, 113, 16), (2, 3, 113, 8)
    inputs = [torch.randn(shape, requires_grad=backward) for shape in shapes]
    problem = cost.Problem(90, 113, 16, 8, num_heads=3, batch_size=2, **limits)
    call = limits | HEIGHT.get(rung, {})
    with FlopCounterMode(display=False) as forward:
        out = cases.on(by_name(rung))(*inputs, **call)
    counted = forward.get_total_flops()
    if backward:
        with FlopCounterMode(display=False) as both:
            out.sum().backward()
        counted = both.get_total_flops()
    assert counted == cost.flops(problem, rung, backward=backward, block_q=32)


@limits
@pytest.mark.parametrize("twin", traffic.TWINS)
@pytest.mark.parametrize("block_q", [8, 16, 32])
@pytest.mark.parametrize("lengths", [(250, 250), (113, 203), (203, 113)], ids=str)
def test_bytes_are_those_that_a_run_moves(twin, lengths, block_q, limits):
    rng = np.random.default_rng(0)
    seq_len_q, seq_len_kv = lengths
    shapes = (seq_len_q, 8), (seq_len_kv, 8), (seq_len_kv, 5)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    _, memory = traffic.TWINS[twin](*arrays, **limits, block_q=block_q, block_kv=24)
    problem = cost.Problem(seq_len_q, seq_len_kv, 8, 5, **limits)
    predicted = cost.bytes_moved(problem, twin, block_q=block_q)
    assert memory.moved == pytest.approx(predicted, rel=0.02)


@limits
@pytest.mark.parametrize("twin", traffic.TWINS)
@pytest.mark.parametrize("lengths", [(9, 13), (13, 9), (1, 4), (4, 0)], ids=str)
def test_what_is_counted_computes_attention(twin, lengths, limits):
    rng = np.random.default_rng(1)
    seq_len_q, seq_len_kv = lengths
    arrays = [rng.standard_normal((n, 4)) for n in (seq_len_q, seq_len_kv, seq_len_kv)]
    out, memory = traffic.TWINS[twin](*arrays, **limits, block_q=4, block_kv=3)
    np.testing.assert_allclose(out, reference.attention(*arrays, **limits), atol=1e-12)
    assert memory.stored >= out.nbytes


def test_every_load_and_store_is_counted_once():
    memory = traffic.SlowMemory(x=np.arange(12.0).reshape(6, 2))
    memory.reserve("y", 6, 1)
    block = memory.load("x", slice(1, 4))
    block += 100
    memory.store("y", slice(0, 2), np.ones((2, 1)))
    assert (memory.loaded, memory.stored, memory.moved) == (48, 16, 64)
    assert memory.moves == [("load", "x", slice(1, 4), 48), ("store", "y", slice(0, 2), 16)]
    assert memory.look("x").max() == 11
    assert np.isnan(memory.look("y")).sum() == 4


def test_the_formulas_say_what_the_book_says():
    def moved(rung, **changes):
        sizes = {"seq_len_q": 4096, "seq_len_kv": 4096} | changes
        return cost.bytes_moved(cost.Problem(**sizes), rung)

    n = 4096
    assert moved("batched") == 4 * (4 * n * 64 + 4 * n * n)
    assert moved("tiled") == 4 * (2 * n * 64 + n + (n / 128) * n * 128)
    assert moved("tiled", is_causal=True) == 4 * (2 * n * 64 + n + (n / 128 + 1) / 2 * n * 128)
    assert moved("batched") / moved("tiled") > 3.5
    assert moved("tiled", itemsize=2, num_heads=6, batch_size=2) == 6 * moved("tiled")
    window = [moved("strips", is_causal=True, window_size=256, **lengths(n)) for n in (4096, 8192)]
    assert window[1] / window[0] == pytest.approx(2, rel=0.03)


def lengths(n):
    return {"seq_len_q": n, "seq_len_kv": n}


def test_a_recomputed_backward_pass_costs_five_products():
    problem = cost.Problem(64, 64, 16, 16)
    forward = cost.flops(problem, "tiled")
    assert forward == 2 * 64 * 64 * 32
    assert cost.flops(problem, "batched", backward=True) == 2 * forward
    assert cost.flops(problem, "recompute", backward=True) == 2.5 * forward


def test_scores_held_grow_with_square_line_and_not_at_all():
    for rung, growth in (("batched", 4), ("strips", 2), ("tiled", 1)):
        held = [cost.scores_held(cost.Problem(n, n), rung) for n in (2048, 4096)]
        assert held[1] == growth * held[0]
    narrow = cost.Problem(4096, 4096, is_causal=True, window_size=10)
    assert cost.scores_held(narrow, "strips", block_q=16) == 16 * 25


def test_what_has_no_formula_is_refused():
    with pytest.raises(ValueError, match="rung 'flash'; there is one for"):
        cost.flops(cost.Problem(4, 4), "flash")
    with pytest.raises(ValueError, match="needs is_causal"):
        cost.Problem(4, 4, window_size=2)


def test_by_hand_keeps_what_the_formula_holds():
    arrays = np.ones((3, 1, 32, 4))
    *_, kept = by_hand.attention_forward(*arrays)
    assert kept.weights.size == cost.scores_held(cost.Problem(32, 32), "by_hand")


@pytest.mark.slow
def test_a_whole_matrix_takes_the_memory_that_was_predicted():
    scores = 4 * 8 * cost.scores_held(cost.Problem(2048, 2048), "batched")
    whole, strip = (peak_memory(rung, 2048) for rung in ("batched", "strips"))
    assert 1.9 * scores < whole < 6 * scores
    assert strip < whole / 5


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["/proc", "/proc,resource"], ids=["macos", "windows"])
def test_the_same_is_measured_where_the_mark_cannot_be_reset(monkeypatch, missing):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "without"))
    here = peak_memory("batched", 1024)
    monkeypatch.setenv("ATTNCOURSE_WITHOUT", missing)
    assert peak_memory("batched", 1024) == pytest.approx(here, rel=0.05)


@pytest.mark.slow
def test_without_psutil_it_says_what_is_needed(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "without"))
    monkeypatch.setenv("ATTNCOURSE_WITHOUT", "/proc,psutil")
    with pytest.raises(RuntimeError, match="needs psutil: pip install psutil"):
        peak_memory("batched", 16)


@pytest.mark.slow
def test_a_child_that_fails_is_heard():
    with pytest.raises(RuntimeError, match="no rung is called 'nothing'"):
        peak_memory("nothing", 16)
