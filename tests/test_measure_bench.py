"""The harness takes turns, reports ratios, and prints and saves what it measured."""

import argparse
import json
import time
import types
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from attncourse.measure import bench
from attncourse.measure.bench import tables
from attncourse.rungs import LADDER

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
FUNCTIONS = {"a": lambda: None, "b": lambda: None, "c": lambda: None}


def command(*words):
    parser = argparse.ArgumentParser()
    bench.add_command(parser.add_subparsers())
    args = parser.parse_args(["bench", *words])
    return args.run(args)


def test_functions_take_turns():
    calls = []
    functions = {name: lambda name=name: calls.append(name) for name in FUNCTIONS}
    times = bench.interleaved(functions, seconds=10, rounds=4)
    assert calls == ["a", "b", "c"] * 5
    assert all(len(found) == 4 for found in times.values())


def test_a_slow_first_round_is_kept_and_ends_it(monkeypatch):
    ticks = iter(range(0, 1000, 3))
    clock = types.SimpleNamespace(process_time=lambda: float(next(ticks)))
    monkeypatch.setattr(bench, "time", clock)
    assert bench.interleaved(FUNCTIONS, seconds=2) == {"a": [3.0], "b": [3.0], "c": [3.0]}


def test_a_process_that_sleeps_costs_nothing():
    times = bench.interleaved({"sleep": lambda: time.sleep(0.05)}, rounds=1)
    assert 0 <= times["sleep"][0] < 0.04


def test_a_ratio_is_taken_round_by_round():
    # Everything is ten times slower in the second round: the ratio does not notice.
    times = {"base": [1.0, 10.0, 1.0], "ours": [0.5, 5.0, 0.5]}
    assert bench.ratios(times, "base") == {"base": 1.0, "ours": 2.0}


def test_a_table_aligns_and_marks_what_is_missing():
    text = bench.table([{"n": 1, "ms": 0.12345}, {"n": 100, "note": "x"}])
    assert text.splitlines() == ["  n     ms  note", "  1  0.123     -", "100      -     x"]


def test_what_is_saved_names_the_machine(tmp_path):
    bench.save(tmp_path / "new" / "x.json", "x", [{"n": 1}])
    content = json.loads((tmp_path / "new" / "x.json").read_text())
    assert content["rows"] == [{"n": 1}]
    assert content["machine"]["torch"] == torch.__version__
    assert {"date", "cpu", "threads"} <= content["machine"].keys()


def test_the_command_prints_one_small_table(capsys, tmp_path):
    threads = torch.get_num_threads()
    words = ["decode", "--lengths", "16", "--seconds", "0.01", "--json", str(tmp_path)]
    assert command(*words) == 0
    assert torch.get_num_threads() == threads
    out = capsys.readouterr().out
    assert tables.TITLES["decode"] in out
    assert "32/4" in out
    assert len(json.loads((tmp_path / "cpu_decode.json").read_text())["rows"]) == 2


def test_an_unknown_table_is_named(capsys):
    assert command("decode", "speed") == 2
    assert "no table is called speed; there are ladder" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["ladder", "tiles", "window"])
def test_every_table_has_a_column_for_what_it_times(name):
    rows = getattr(tables, name)(lengths=(32,), seconds=0.001)
    wanted = {"ladder": {"sdpa ms", "plain", *tables.TIMED}, "window": {"strips", "tiled"}}
    wanted["tiles"] = {"plain ms", "strips", "tiled", "recompute", "sdpa"}
    assert all(wanted[name] <= row.keys() for row in rows)
    assert all(row["strips"] > 0 for row in rows)


def test_every_rung_is_timed_somewhere():
    calls = tables._calls(16, False, backward=False)
    here = {rung.name for rung in LADDER if find_spec("triton") or "triton" not in rung.name}
    assert calls.keys() == here | {"plain"}


def test_what_takes_minutes_is_timed_short_only():
    assert not {"loops", "triton_forward", "triton"} & tables._calls(65, True, False).keys()


def test_what_is_compared_computes_the_same():
    for is_causal in (False, True):
        torch.manual_seed(0)
        calls = tables._calls(24, is_causal, backward=False)
        answers = {name: torch.as_tensor(call()) for name, call in calls.items()}
        for name, answer in answers.items():
            torch.testing.assert_close(answer, answers["sdpa"], msg=name)


def test_large_matrices_are_left_out():
    assert not {"matmul", "by_hand", "batched", "plain"} & tables._calls(8192, True, False).keys()


def measured(name, column, **where):
    """Return a column of a committed table, from the rows that fit."""
    rows = json.loads((RESULTS / f"{name}.json").read_text())["rows"]
    return [row[column] for row in rows if where.items() <= row.items()]


@pytest.mark.parametrize(
    ("name", "column", "where", "low", "high"),
    [
        *(("cpu_tiles", rung, {"n": 4096}, 5.0, 6.0) for rung in ("strips", "tiled")),
        *(
            ("cpu_tiles", rung, {"n": n}, 4, 5)
            for rung in ("strips", "tiled")
            for n in (1024, 2048)
        ),
        *(("cpu_tiles", rung, {"n": 512}, 1.5, 2.5) for rung in ("strips", "tiled")),
        *(
            (f"{folder}cpu_ladder", rung, {"causal": "no", "pass": "forward", "n": n}, low, high)
            for folder, low, high in (("", 0.4, 0.75), ("epyc/", 0.6, 0.95))
            for rung in ("strips", "tiled", "recompute")
            for n in (1024, 2048, 4096, 8192)
        ),
        ("cpu_window", "strips", {"n": 4096, "W": 256}, 5.5, 6.5),
        ("epyc/cpu_window", "strips", {"n": 4096, "W": 256}, 8.5, 9.5),
        ("cpu_linear", "chunked", {"n": 8192, "pass": "forward"}, 5.5, 6.5),
        ("epyc/cpu_linear", "chunked", {"n": 8192, "pass": "forward"}, 15.5, 16.5),
        ("cpu_decode", "decode", {"n": 32768, "heads": "32/4"}, 2.35, 2.5),
        ("epyc/cpu_decode", "decode", {"n": 32768, "heads": "32/4"}, 1.95, 2.05),
        ("pretrained_generate", "later x", {"type": "float32"}, 0.95, 1.1),
        ("pretrained_generate", "later x", {"type": "bfloat16", "cache": "yes"}, 1.15, 1.3),
    ],
)
def test_the_prose_beside_the_tables_says_what_was_measured(name, column, where, low, high):
    found = measured(name, column, **where)
    assert found
    assert all(low <= ratio <= high for ratio in found), found
