"""`attncourse check FILE`: the verdict is what the checks said, whatever the file does."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import mini
import pytest

from attncourse.cli import main
from attncourse.grading.running import without_magics

ROOT = Path(__file__).resolve().parents[2]
STUB = "def {name}(*_):\n    raise NotImplementedError()"
BLANK = (STUB.format(name="softmax"), STUB.format(name="attention"))


@pytest.fixture
def check(tmp_path, exercise, capsys, monkeypatch):
    """Return a function that checks a file's bytes and returns (status, out, err)."""
    monkeypatch.setenv("ATTNCOURSE_PROGRESS", str(tmp_path / "progress.json"))

    def run(data, *words, name="mine.ipynb"):
        file = tmp_path / name
        file.write_bytes(data if isinstance(data, bytes) else data.encode())
        status = main(["check", str(file), "--exercise", str(exercise), *words])
        seen = capsys.readouterr()
        return status, seen.out, seen.err

    return run


ENDS = [
    "exit()",
    "quit()",
    "import sys; sys.exit(0)",
    "raise SystemExit",
    "raise KeyboardInterrupt",
    "import os; os._exit(0)",
    "import atexit, os; atexit.register(os._exit, 0)",
    "import os, threading; threading.Timer(0.2, os._exit, [0]).start()",
    "import os; os.closerange(0, 100)",
    "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "import sys; sys.stdout = sys.stderr = None; print = None",
    "import ctypes; ctypes.string_at(0)",
]


@pytest.mark.parametrize("source", ENDS)
def test_nothing_answered_is_never_a_success(check, source):
    status, out, _ = check(mini.answers(*BLANK, last=source))
    assert status == 1
    assert "q1" in out
    assert "q2" in out


@pytest.mark.parametrize("source", ENDS[:7])
def test_right_answers_beside_such_a_cell_stay_right(check, source):
    status, out, err = check(mini.answers(last=source))
    assert (status, out.count("All public tests passed.")) == (0, 2), err


@pytest.mark.parametrize("source", ["import os; os._exit(0)", "while True: pass"])
def test_a_cell_that_never_ends_or_ends_python_is_left_out(check, exercise, source):
    text = (exercise / "exercise.toml").read_text()
    (exercise / "exercise.toml").write_text(text.replace("seconds = 3", "seconds = 1", 1))
    status, out, err = check(mini.answers(softmax=source, attention=own_attention()))
    assert status == 1
    assert "you have not defined softmax" in out
    assert "q2 Attention: 1 of 1 points" in out
    assert "cell 2: " in err
    assert "does a loop never end" in err or "ended Python itself" in err


def own_attention():
    """Return attention that needs no softmax."""
    return mini.SOFTMAX.replace("softmax", "own") + "\n" + mini.ATTENTION.replace("softmax", "own")


def test_a_call_that_ends_python_fails_its_question_only(check):
    leave = "def softmax(scores):\n    import os\n    os._exit(0)"
    status, out, _ = check(mini.answers(leave, own_attention()))
    assert status == 1
    assert "q1: it ended Python itself" in out
    assert "q2 Attention: 1 of 1 points" in out


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "SystemExit", "GeneratorExit"])
def test_whatever_a_call_raises_fails_its_question_only(check, raised):
    source = f"def softmax(scores):\n    raise {raised}"
    status, out, _ = check(mini.answers(source, own_attention()))
    assert (status, raised in out) == (1, True)
    assert "q2 Attention: 1 of 1 points" in out


def test_a_check_that_hangs_is_stopped(check, exercise, monkeypatch):
    monkeypatch.setattr("attncourse.grading.file_check.SLACK", 3.0)
    text = (exercise / "exercise.toml").read_text()
    (exercise / "exercise.toml").write_text(text.replace("seconds = 3", "seconds = 1"))
    began = time.monotonic()
    hang = "def softmax(scores):\n    while True: pass"
    status, out, _ = check(mini.answers(hang, own_attention()))
    assert (status, "q1: stopped after 4 s" in out) == (1, True)
    assert "q2 Attention: 1 of 1 points" in out
    assert time.monotonic() - began < 60


CONTINUED = "def softmax(scores):\n    w = np.exp(scores - scores.max(-1, keepdims=True))\n"
RETURN = "    return n * w / w.sum(-1, keepdims=True)"
RIGHT = {
    "percent": f"    n = ((w.shape[-1] * 2 + 1)\n% 2)\n{RETURN}",
    "indented": f"    n = (3\n        % 2)\n{RETURN}",
    "backslash": f"    n = 3 \\\n    % 2\n{RETURN}",
    "format": f"    n = int('%d'\n% 1)\n{RETURN}",
    "string": f'    n = 1\n    """\n% of the sum\n! and more\n"""\n{RETURN}',
    "not-equal": f"    n = int(1\n!= 2)\n{RETURN}",
}


@pytest.mark.parametrize(
    "magic", ["", "%matplotlib inline\n", "!echo hello\n", "%time 1\n", "np.exp?\n"]
)
@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_a_line_that_continues_is_no_magic(body, magic):
    names = {"np": pytest.importorskip("numpy")}
    source = without_magics(magic + CONTINUED + body)
    exec(source, names)
    assert names["softmax"](names["np"].zeros(4)).sum() == 1
    assert source.count("\n") == (magic + CONTINUED + body).count("\n")


def test_right_answers_with_such_lines_pass_the_check(check):
    for body in RIGHT.values():
        status, out, err = check(mini.answers(softmax=f"%time 1\n{CONTINUED}{body}"))
        assert status == 0, out + err


@pytest.mark.parametrize(
    "source",
    [
        "%%time\n" + mini.SOFTMAX,
        "%time weights = 1\nassert weights == 1\n" + mini.SOFTMAX,
        "files = !ls\n" + mini.SOFTMAX,
        "display(1)\nget_ipython()\nnp.exp?\n" + mini.SOFTMAX,
        "import asyncio\nawait asyncio.sleep(0)\n" + mini.SOFTMAX,
        "import matplotlib.pyplot as plt\nplt.plot([1]); plt.show()\n" + mini.SOFTMAX,
        "ex.check('q1'); ex.progress()\n" + mini.SOFTMAX,
    ],
)
def test_what_runs_in_a_notebook_runs_here(check, source):
    status, out, err = check(mini.answers(softmax=source))
    assert (status, err) == (0, ""), out


ODD = {
    "a list": b"[]",
    "a number": b"7",
    "no json": b"%PDF",
    "empty": b"",
    "not utf-8": b"\xff\xfe{}",
    "format 3": json.dumps({"worksheets": [], "nbformat": 3}).encode(),
    "cells no list": b'{"cells": {}}',
    "a source that is no text": mini.notebook({**mini.code("x"), "source": 5}),
    "another language": mini.notebook(mini.code("x"), kernelspec={"language": "R", "name": "ir"}),
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_what_is_no_notebook_is_said_in_one_line(check, data):
    status, out, err = check(data)
    assert (status, out) == (2, "")
    assert err.startswith("attncourse: ")
    assert err.count("\n") == 1


def bare(*cells):
    """Return a notebook whose cells have nothing but a type and a source."""
    keys = ("cell_type", "source")
    return json.dumps({"cells": [{key: cell[key] for key in keys} for cell in cells]}).encode()


@pytest.mark.parametrize(
    "data",
    [
        bare(mini.code(mini.IMPORT), mini.code(mini.SOFTMAX), mini.code(mini.ATTENTION)),
        b"\xef\xbb\xbf" + mini.answers(),
        mini.notebook({"cell_type": "code"}, *json.loads(mini.answers())["cells"], None, "text"),
        mini.notebook(*[{**c, "metadata": None} for c in json.loads(mini.answers())["cells"]]),
    ],
    ids=["no-metadata", "byte-order-mark", "no-source", "metadata-null"],
)
def test_an_odd_notebook_that_the_grader_reads_is_read(check, data):
    status, out, err = check(data)
    assert status == 0, out + err


CODE = f"import numpy as np\n{mini.SOFTMAX}\n{mini.ATTENTION}\n"


@pytest.mark.parametrize(
    "data",
    [
        CODE.encode(),
        b"\xef\xbb\xbf" + CODE.encode(),
        f"# -*- coding: latin-1 -*-\n# caf\xe9\n{CODE}".encode("latin-1"),
        f"%matplotlib inline\n{CODE}".encode(),
        CODE.replace("\n", "\r\n").encode(),
        f"{CODE}if __name__ == '__main__':\n    1 / 0\n".encode(),
    ],
    ids=["plain", "byte-order-mark", "latin-1", "magic", "crlf", "main"],
)
def test_a_python_file_is_read_as_python_reads_it(check, data):
    status, out, err = check(data, name="mine.py")
    assert (status, err) == (0, ""), out


def test_an_error_of_a_python_file_is_named_with_its_line(check):
    status, out, err = check("import numpy as np\n\n1 / 0\n", name="mine.py")
    assert status == 1
    assert err == "mine.py: ZeroDivisionError: division by zero (in <module>, line 3: 1 / 0)\n"
    assert "you have not defined softmax" in out


def test_lines_are_counted_in_the_cell(check):
    source = "%time 1\ndef softmax(scores):\n    x = 1\n    return scores @ missing"
    status, out, _ = check(mini.answers(softmax=source))
    assert status == 1
    assert "(in softmax, line 4: return scores @ missing)" in " ".join(out.split())


def test_the_courses_own_answers_are_hidden_as_they_are_when_graded(check):
    source = "from attncourse.softmax import softmax"
    status, _, err = check(mini.answers(softmax=source))
    assert status == 1
    assert "attncourse.softmax is not available while your work is graded" in err


def test_nothing_is_left_running(check, tmp_path):
    if os.name == "nt":
        pytest.skip("process groups are Unix's")
    place = tmp_path / "pid"
    source = "import subprocess\np = subprocess.Popen(['sleep', '600'])\n"
    source += f"open({str(place)!r}, 'w').write(str(p.pid))"
    assert check(mini.answers(last=source))[0] == 0
    until = time.monotonic() + 10
    while Path(f"/proc/{place.read_text()}").exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert not Path(f"/proc/{place.read_text()}").exists()


def test_a_file_named_otherwise_is_told_of_the_option(tmp_path, capsys):
    file = tmp_path / "Copy of 03_query.ipynb"
    file.write_bytes(mini.answers())
    assert main(["check", str(file)]) == 2
    assert "--exercise ID" in capsys.readouterr().err


# Each command without a package that it needs, in a process of its own.
WITHOUT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
from attncourse.cli import main
sys.exit(main({words!r}))
"""


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (["pytest"], ["check", "NB", "--exercise", "03"]),
        (["pytest"], ["exercise", "lint", "03"]),
        (["pytest"], ["exercise", "kills", "03"]),
        (["IPython"], ["grade", "doctor"]),
        (["pytest"], ["grade", "doctor"]),
        (["IPython"], ["grade", "one", "NB", "--exercise", "03"]),
        (["pytest"], ["grade", "batch", "IN", "--exercise", "03"]),
        (["torch"], ["bench"]),
        (["torch"], ["kernels"]),
        (["triton"], ["kernels"]),
        (["distributed"], ["grade", "batch", "IN", "--exercise", "03", "--executor", "dask"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else value,
)
def test_a_missing_package_is_one_line_that_says_how_to_get_it(tmp_path, missing, words):
    mini.write_submissions(tmp_path / "in", {"ana": mini.answers()})
    (tmp_path / "nb.ipynb").write_bytes(mini.answers())
    places = {"NB": str(tmp_path / "nb.ipynb"), "IN": str(tmp_path / "in")}
    words = [places.get(word, word) for word in words]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=missing, words=words)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ATTNCOURSE_PROGRESS": "off"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    assert missing[0] in done.stderr
    assert "pip install 'attncourse[" in done.stderr


@pytest.mark.parametrize("kind", ["lint", "build", "kills"])
def test_an_exercise_without_its_source_says_where_to_find_it(exercise, kind, capsys):
    (exercise / "source.ipynb").unlink()
    assert main(["exercise", kind, str(exercise)]) == 2
    seen = capsys.readouterr().err
    assert "has no source.ipynb" in seen
    assert "clone the repository" in seen
    assert seen.count("\n") == 1
