"""A terminal that knows few characters loses no report, and files are UTF-8 everywhere."""

import argparse
import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attncourse import cli

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = "exercises/03_query_key_value/03_query_key_value.ipynb"
TRUSTED = ["--exercise", "03", "--backend", "none", "--i-trust-these-submissions"]
SHORT = ["--lengths", "16", "--seconds", "0.01"]
KERNEL = ["--kernel", "short", "--width", "64", "--dtype", "float16", "--features", "plain"]
# Each command that there is, with words that let it print something, and its exit status.
COMMANDS = {
    "doctor": ([], 0),
    "conformance": (["matmul"], 0),
    "bench": (["decode", *SHORT], 0),
    "kernels": (KERNEL, 0),
    "check": ([NOTEBOOK], 1),
    "progress": ([], 0),
    "exercise list": ([], 0),
    "exercise new": (["{folder}/exercises/21_schön", "--title", "Schön ≤ 2"], 0),
    "exercise lint": (["03", "--static"], 0),
    "exercise build": (["03", "--out", "{folder}/größe"], 0),
    "exercise kills": (["03"], 0),
    "grade one": ([NOTEBOOK, *TRUSTED], 0),
    "grade batch": (["{folder}/ä", *TRUSTED, "--out", "{folder}/out", "--jobs", "1"], 0),
    "grade doctor": ([], None),
    "grade gradescope": (["--exercise", "03", "--out", "{folder}/ü.zip"], 0),
}


def leaves(parser, words=()):
    """Yield every command of a parser, as it is typed."""
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not groups:
        yield " ".join(words)
    for name, below in (groups[0].choices if groups else {}).items():
        yield from leaves(below, (*words, name))


def test_every_command_is_tried_here():
    assert set(leaves(cli.build_parser())) == set(COMMANDS)


def narrow(command, folder, encoding="ascii"):
    """Run a command whose output may hold ASCII only; file paths of ours may hold more."""
    (folder / "ä").mkdir(exist_ok=True)
    (folder / "ä" / "zoë.ipynb").write_bytes((ROOT / NOTEBOOK).read_bytes())
    settings = {"PYTHONIOENCODING": encoding, "ATTNCOURSE_PROGRESS": str(folder / "progress.json")}
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **settings, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding=encoding,
        timeout=200,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_all_it_has_to_say_in_ascii(name, tmp_path):
    if name == "kernels":
        pytest.importorskip("triton")
    words, status = COMMANDS[name]
    words = [word.format(folder=tmp_path) for word in words]
    done = narrow(["-m", "attncourse", *name.split(), *words], tmp_path)
    assert "Traceback" not in done.stderr, done.stderr
    assert "UnicodeEncodeError" not in done.stdout + done.stderr
    assert done.stdout
    assert status in (None, done.returncode), done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_what_a_terminal_cannot_show_comes_as_its_number(tmp_path, encoding):
    done = narrow(["-m", "attncourse", "progress"], tmp_path, encoding)
    assert done.returncode == 0, done.stderr
    code = (
        "import argparse; from attncourse import cli\n"
        "wish = argparse.Namespace(run=lambda _: print('L \u2264 S') or 7)\n"
        "cli.build_parser = lambda: argparse.Namespace(parse_args=lambda _: wish)\n"
        "raise SystemExit(cli.main([]))"
    )
    done = narrow(["-c", code], tmp_path, encoding)
    assert (done.returncode, done.stdout) == (7, "L \\u2264 S\n"), done.stderr


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["make.py", "help"], 0),
        (["tools/check_notebooks.py", "{folder}/ä/zoë.ipynb"], 1),
        (["tools/address.py", "--check"], 0),
        (["tools/keep_outputs.py"], 2),
        (["-c", "import sys; sys.path.insert(0, '.'); import make; make.lossless()\n"
          "make.run([sys.executable, '-c', 'print(chr(8804), chr(0x4f60))'], 30)"], 0),
    ],
    ids=["make", "check_notebooks", "address", "keep_outputs", "children"],
)  # fmt: skip
def test_the_tools_print_in_ascii_too(tmp_path, command, status):
    done = narrow([word.format(folder=tmp_path) for word in command], tmp_path)
    assert done.returncode == status, done.stderr
    if "run" in command[-1]:
        assert done.stdout == "\\u2264 \\u4f60\n", "what a child prints arrives whole"


def test_every_tool_that_prints_asks_for_it():
    silent = [
        path.name
        for path in sorted((ROOT / "tools").rglob("*.py"))
        if 'if __name__ == "__main__"' in (text := path.read_text(encoding="utf-8"))
        and "lossless()" not in text
    ]
    assert silent == []


def without_encoding(tree):
    """Yield the line of each call that opens a text in the machine's own encoding."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        words = {word.arg for word in call.keywords}
        texts = [a.value for a in call.args if isinstance(a, ast.Constant)]
        binary = any(isinstance(text, str) and "b" in text for text in texts)
        if name in ("read_text", "write_text"):
            # Given by its place: first of read_text, second of write_text.
            given = len(call.args) > (name == "write_text")
            if "encoding" not in words and not given:
                yield call.lineno
        if name == "open" and isinstance(call.func, ast.Name) and not binary:
            if "encoding" not in words:
                yield call.lineno
        spoken = {word.arg for word in call.keywords if word.arg in ("text", "universal_newlines")}
        if spoken and "encoding" not in words and name in ("run", "Popen", "check_output"):
            yield call.lineno


def test_no_text_is_read_or_written_in_the_encoding_of_the_machine():
    files = [ROOT / "make.py"]
    for folder in ("attncourse", "tools", "book/_ext", "benchmarks"):
        files += sorted((ROOT / folder).rglob("*.py"))
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in files
        for line in without_encoding(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []
    bad = "open('a'); p.write_text(x); p.read_text(); subprocess.run(c, text=True)"
    assert len(list(without_encoding(ast.parse(bad)))) == 4
