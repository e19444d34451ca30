"""Attention on 1 to 4 real processes: equal to one process, counted, and without hanging."""

import json
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

import psutil  # noqa: E402

from attncourse.parallel import cluster, launch, start  # noqa: E402
from attncourse.parallel.budget import Call  # noqa: E402

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
LIMIT = 1e-5
# Generous: a loaded machine is slow, and only a hang should reach it.
PATIENCE = 240


def run(monkeypatch_context, *arguments, processes, check=True, module="parallel_worker"):
    """Start the worker, and see that none of its processes is left."""
    monkeypatch_context.setenv("PYTHONPATH", str(HERE))
    done = start.torchrun(module, *arguments, processes=processes, check=check, timeout=PATIENCE)
    assert left_over(arguments[-1]) == []
    return done


def left_over(argument):
    """List the processes that still carry this argument, after a moment to disappear."""
    until = time.monotonic() + 10
    while True:
        found = [
            process.pid
            for process in psutil.process_iter(["cmdline"])
            if argument in (process.info["cmdline"] or []) and "torch" in str(process.info)
        ]
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.1)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Run everything once on four processes."""
    path = tmp_path_factory.mktemp("parallel") / "found.json"
    with pytest.MonkeyPatch.context() as context:
        run(context, "everything", str(path), processes=4)
    return json.loads(path.read_text())


def test_every_case_was_compared(found):
    # 4 sizes, 2 methods, 2 orders, with and without mask, in groups of 1, 2, 3 and 4 ranks
    assert len(found["comparisons"]) == 4 * 2 * 2 * 2 * 4


@pytest.mark.parametrize("method", ["ring", "ulysses"])
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_output_and_gradients_are_those_of_one_process(found, world_size, method):
    for case in select(found, method, world_size):
        assert max(case["errors"].values()) < LIMIT, case


@pytest.mark.parametrize("method", ["ring", "ulysses"])
def test_errors_do_not_grow_with_the_number_of_ranks(found, method):
    worst = [
        max(max(case["errors"].values()) for case in select(found, method, world_size))
        for world_size in (1, 2, 3, 4)
    ]
    assert 0 < max(worst) < 3 * worst[0]


@pytest.mark.parametrize("method", ["ring", "ulysses"])
@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_bytes_are_those_of_the_formula(found, world_size, method):
    for case in select(found, method, world_size):
        assert case["sent"] == case["predicted"], case
        assert case["sent"]["forward"] > 0


@pytest.mark.parametrize("world_size", [2, 4])
def test_bfloat16_is_as_exact_as_plain_pytorch(found, world_size):
    ours, plain = found[f"low precision {world_size}"]
    assert 0 < ours <= 2 * plain


@pytest.mark.parametrize("world_size", [2, 4])
def test_real_messages_are_the_simulated_ones_in_order_and_size(found, world_size):
    call = Call(world_size, 67, heads=2, kv_heads=1, width=8, value_width=8)
    timeline = cluster.ring(call)
    for rank, mine in enumerate(found[f"messages {world_size}"]):
        columns = zip(timeline.sources[:, rank], timeline.nbytes[:, rank], strict=True)
        after = (rank + 1) % world_size
        wanted = [[rank, after, f"keys of {source}", nbytes] for source, nbytes in columns]
        assert mine["log"] == wanted


@pytest.mark.parametrize("world_size", [2, 4])
def test_a_slow_rank_changes_nothing(found, world_size):
    # rank 1 came a second late: the others waited for it
    assert max(mine["error"] for mine in found[f"messages {world_size}"]) < 1e-6


@pytest.mark.parametrize("world_size", [2, 4])
def test_the_kernel_counts_the_same_bytes(found, world_size):
    for mine in found[f"messages {world_size}"]:
        if mine["kernel"] is None:
            pytest.skip("this system does not count the bytes of a socket")
        ours = sum(message[3] for message in mine["log"])
        # gloo adds a header to every message, and a barrier sends some
        assert ours <= mine["kernel"] < ours + 2000 * world_size


@pytest.mark.parametrize("world_size", [2, 4])
def test_pytorchs_own_ring_attention_agrees(found, world_size):
    apart = found[f"peers {world_size}"]
    assert set(apart) == {
        "plain, causal False",
        "plain, causal True",
        "zigzag, causal True",
    }
    assert 0 < max(apart.values()) < 5e-6


def test_a_difference_is_the_same_error_on_every_rank(found):
    for name, pattern in {
        "width": "query width: 8 on rank 0, 6 on rank 1",
        "dtype": r"dtype: torch\.float32 on rank 0, torch\.float64 on rank 1",
        "lengths": r"the ranks hold \[4, 9, 4\]",
        "schedule": "order: zigzag on rank 0, plain on rank 1",
        "scale": r"scale: left open on rank 0, 0\.5 on rank 1",
        "negative scale": "scale: left open on rank 0, -1 on rank 1",
        "gradients": "inputs that need gradients: none on rank 0, query on rank 1",
    }.items():
        told = found["refusals"][name]
        assert all(re.search(pattern, words) for words in told), told
        assert all(words.startswith("ValueError") for words in told), told


@pytest.mark.parametrize("name", ["no tensor", "one head too many", "rung"])
def test_a_refusal_ends_the_call_on_every_rank(found, name):
    told = found["refusals"][name]
    assert told[1].startswith(("ValueError", "TypeError"))
    assert told[0] == told[2] == "RuntimeError: rank 1 refused its inputs; its own error says why"


def test_an_error_on_one_rank_is_reported_by_all(monkeypatch, tmp_path):
    begin = time.monotonic()
    done = run(monkeypatch, "fail", str(tmp_path), processes=3, check=False)
    assert done.returncode != 0
    assert "rank 1: ValueError: the tokens of rank 1 are spoilt" in done.stderr
    for rank in (0, 2):
        assert f"rank {rank}: stops, because of rank 1: ValueError: the tokens" in done.stderr
    assert "Traceback" not in done.stderr.split("rank 1: ValueError")[0]
    assert time.monotonic() - begin < PATIENCE / 2


def test_a_stuck_rank_costs_the_timeout_and_no_more(monkeypatch, tmp_path):
    done = run(monkeypatch, "hang", str(tmp_path), processes=2, check=False)
    assert done.returncode != 0
    assert "rank 0: stops, another process is gone or too slow: " in done.stderr
    assert "Timed out waiting" in done.stderr


def select(found, method, world_size):
    cases = [
        case
        for case in found["comparisons"]
        if case["method"] == method and case["call"]["world_size"] == world_size
    ]
    assert len(cases) == 16
    return cases


def test_a_script_without_torchrun_says_how_to_start_it(monkeypatch, capsys):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(sys, "argv", ["ring.py", "--check"])
    assert launch.run(lambda process: None) == 2
    said = capsys.readouterr().err
    assert "torchrun --standalone --nproc-per-node 2 -m" in said
    assert "--check" in said


def test_a_call_knows_its_sizes():
    call = Call(4, 67)
    assert call.lengths.sum() == 67
    assert replace(call, world_size=1).lengths.tolist() == [67]
