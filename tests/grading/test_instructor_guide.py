"""The guide's commands exist, and what it says about statuses and files is so."""

import re
import shlex
from pathlib import Path

import pytest

from attncourse import cli
from attncourse.grading.backends import BACKENDS
from attncourse.grading.feedback_page import WORDS
from attncourse.grading.inside.worker import OUTPUT_CHARS
from attncourse.grading.submissions import MAX_BYTES

GUIDE = (Path(__file__).resolve().parents[2] / "book/instructor_guide.md").read_text(
    encoding="utf-8"
)
BLOCKS = re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL)
LINES = [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines()]
COMMANDS = [line[2:].replace("…", "") for line in LINES if line.startswith("$ attncourse")]
INLINE = re.findall(r"`(attncourse \w+ \w+ --[^`]+)`", GUIDE)


@pytest.mark.parametrize("line", [*COMMANDS, *INLINE])
def test_every_command_of_the_guide_is_understood(line):
    words = shlex.split(line, comments=True)
    assert callable(cli.build_parser().parse_args(words[1:]).run)


def test_what_is_not_stopped_is_said():
    """A sandbox's /tmp is limited in bytes, not in the number of its files."""
    unstopped = GUIDE.split("### What is not stopped")[1].split("\n## ")[0]
    assert "limited in bytes, not in files" in unstopped


def test_the_guide_has_commands():
    assert len(COMMANDS) >= 10
    assert INLINE


def test_every_status_and_backend_is_explained():
    for word in (*WORDS, *(name for name in BACKENDS)):
        assert f"`{word}`" in GUIDE, word


def test_figures_in_the_guide_are_those_of_the_code():
    assert f"at most {MAX_BYTES >> 20} MB" in GUIDE
    assert f"kept to {OUTPUT_CHARS >> 10} kB" in GUIDE
