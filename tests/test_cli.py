"""The help texts: each gives examples, and each example is a command that exists."""

import os
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from attncourse.cli import build_parser

WITH_EXAMPLES = ("conformance", "measure.bench", "measure.kernel_report")


def examples(module):
    """Return the example command lines; two blanks start a remark."""
    lines = import_module(f"attncourse.{module}").EXAMPLES.splitlines()[1:]
    return [line.strip().split("  ")[0] for line in lines]


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_every_example_is_a_command_that_parses(module):
    found = examples(module)
    assert len(found) >= 3
    for line in found:
        program, *words = shlex.split(line)
        assert program == "attncourse"
        assert callable(build_parser().parse_args(words).run)


@pytest.mark.parametrize("command", ["conformance", "bench", "kernels"])
def test_help_shows_the_examples(command, capsys):
    with pytest.raises(SystemExit) as left:
        build_parser().parse_args([command, "--help"])
    assert left.value.code == 0
    assert f"examples:\n  attncourse {command}" in capsys.readouterr().out


def test_a_wrong_word_is_refused(capsys):
    with pytest.raises(SystemExit) as left:
        build_parser().parse_args(["kernels", "--arch", "sm_70"])
    assert left.value.code == 2
    assert "sm_70" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "recompute",
        "triton",
        "json:dumps --library torch",
        "decode --as decode",
        "json:dumps --as decode --library torch",
        "KVCache --as cache",
    ],
)
def test_conformance_without_torch_says_so_in_one_line(words):
    done = without_torch("conformance", *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("attncourse conformance: torch is not installed: pip install ")


def test_conformance_of_a_numpy_rung_needs_no_torch():
    done = without_torch("conformance", "matmul", "--only", "exact")
    assert (done.returncode, done.stderr) == (0, "")
    assert "all cases passed" in done.stdout


def without_torch(*words):
    """Run the command line as on a machine where torch is not installed."""
    here = Path(__file__).parent
    places = os.pathsep.join(map(str, (here.parent, here / "without")))
    return subprocess.run(
        [sys.executable, "-m", "attncourse", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": places, "ATTNCOURSE_WITHOUT": "torch"},
    )
