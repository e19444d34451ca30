"""One batch with every attack in it: honest grades hold, nothing is stolen, nothing is left."""

import csv
import ctypes
import fcntl
import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import attacks
import mini

psutil = pytest.importorskip("psutil")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bubblewrap is for Linux"),
]
ROOT = Path(__file__).resolve().parents[2]
ROSTER = "id,name,email\n" + "".join(
    f"{name},Ana Lima,ana@example.org\n" for name in ("plain", "lost")
)
PLANTED = "import pathlib\npathlib.Path({marker!r}).touch()\nraise SystemExit(7)\n"


def tree(folder, without):
    """Return name, kind and content hash of everything in a folder, links not followed."""
    seen = {}
    for root, folders, files in os.walk(folder):
        if without in (root, *map(str, Path(root).parents)):
            continue
        for name in [*folders, *files]:
            path = Path(root) / name
            mode = path.lstat().st_mode
            data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            seen[str(path)] = (mode, hashlib.sha256(data).hexdigest())
    return {path: value for path, value in seen.items() if path != without}


def lay_out(folder, port):
    """Write exercise, roster and submissions; return the submissions' folder."""
    mini.write_exercise(folder / "exercise")
    (folder / "roster.csv").write_text(ROSTER)
    (folder / "precious.txt").write_text("precious")
    subs = folder / "submissions"
    paths = [folder, folder / "roster.csv", folder / "exercise/tests/hidden/test_hidden.py", subs]
    paths += [folder / "out/gradebook.csv", ROOT, Path.home()]
    everything = {**attacks.HONEST, **attacks.ZERO, **attacks.BROKEN}
    mini.write_submissions(
        subs, {name: attacks.aimed(data, port, paths) for name, data in everything.items()}
    )
    (subs / "link").mkdir()
    (subs / "link/nb.ipynb").symlink_to(folder / "roster.csv")
    (subs / "pipe").mkdir()
    os.mkfifo(subs / "pipe/nb.ipynb")
    (subs / "plain/nb (1).ipynb").write_bytes(mini.answers())
    os.utime(subs / "plain/nb.ipynb", (0, 0))
    for name in ("numpy.py", "pytest.py", "conftest.py", "json.py", "sitecustomize.py"):
        (subs / name).write_text(PLANTED.format(marker=str(folder / "planted")))
    return subs


def orphans_come_to_us(yes):
    """Become the parent of processes that lose theirs, so that we see them."""
    ctypes.CDLL(None).prctl(36, int(yes), 0, 0, 0)


def heard(listeners):
    """Return whether anything came in."""
    for listener in listeners:
        listener.setblocking(False)
        try:
            listener.accept() if listener.type == socket.SOCK_STREAM else listener.recv(100)
        except BlockingIOError:
            continue
        return True
    return False


def grade_everything(folder):
    """Grade all submissions in one batch, from inside the hostile folder; say what came of it."""
    out = folder / "out"
    orphans_come_to_us(True)
    before_us = {child.pid for child in psutil.Process().children(recursive=True)}
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", port))
        subs = lay_out(folder, port)
        before = tree(folder, str(out))
        words = ["-P", "-m", "attncourse", "grade", "batch", ".", "--exercise", folder / "exercise"]
        words += ["--roster", folder / "roster.csv", "--out", out, "--jobs", "2"]
        done = subprocess.run(
            [sys.executable, *map(str, words), "--backend", "bwrap"],
            cwd=subs,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=560,
        )
        something_heard = heard([tcp, udp])
    left = [c for c in psutil.Process().children(recursive=True) if c.pid not in before_us]
    alive = [child.cmdline() for child in left if child.status() != psutil.STATUS_ZOMBIE]
    orphans_come_to_us(False)
    after = tree(folder, str(out))
    changed = [k for k in before.keys() | after.keys() if before.get(k) != after.get(k)]
    said = done.stdout + done.stderr
    made = {"folder": str(folder), "status": done.returncode, "said": said, "changed": changed}
    return {**made, "alive": alive, "heard": something_heard}


@pytest.fixture(scope="module")
def graded(tmp_path_factory, bwrap):
    """Grade everything once, also where several processes run these tests."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with open(base / "attacks.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = base / "attacks.json"
        if not kept.exists():
            kept.write_text(json.dumps(grade_everything(tmp_path_factory.mktemp("attacks"))))
    made = json.loads(kept.read_text())
    print(made["said"])
    folder = Path(made["folder"])
    files = [path.read_text(encoding="utf-8") for path in (folder / "out/results").glob("*.json")]
    results = {result["student"]: result for result in map(json.loads, files)}
    return {**made, "folder": folder, "out": folder / "out", "results": results}


def test_the_batch_ends_without_an_error_of_its_own(graded):
    assert graded["status"] == 0, graded["said"]
    assert len(graded["results"]) == len({**attacks.HONEST, **attacks.ZERO, **attacks.BROKEN}) + 3
    assert len(graded["results"]) >= 30


@pytest.mark.parametrize("name", attacks.HONEST)
def test_honest_work_gets_all_its_points(graded, name):
    result = graded["results"][name]
    assert (result["points"], result["max"]) == ("4.5", "4.5"), result
    assert result["status"] == "graded"


@pytest.mark.parametrize("name", attacks.ZERO)
def test_an_attack_gains_nothing(graded, name):
    result = graded["results"][name]
    assert result["points"] == attacks.GAINS.get(name, "0"), result
    assert result["status"] in ("graded", "timeout", "memory", "died"), result


@pytest.mark.parametrize("name", [*attacks.BROKEN, "link", "pipe"])
def test_what_is_no_notebook_is_called_so(graded, name):
    result = graded["results"][name]
    assert (result["status"], result["points"]) == ("invalid_notebook", "0")
    assert result["message"], "the learner is told why"


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("endless-loop", "timeout"),
        ("loop-that-swallows", "timeout"),
        ("stopped-itself", "timeout"),
        ("drop-by-drop", "timeout"),
        ("fifty-gigabytes", "memory"),
        ("os-exit-at-call", "died"),
        ("fake-replies-ahead", "died"),
        ("endless-reply", "died"),
        ("lying-sizes", "died"),
        ("kill-everybody", "died"),
        ("lost", "missing"),
    ],
)
def test_the_status_says_what_happened(graded, name, status):
    assert graded["results"][name]["status"] == status


def test_nothing_lives_on(graded):
    assert graded["alive"] == []


def test_not_a_byte_reached_the_listeners(graded):
    assert not graded["heard"]


def test_no_file_changed_outside_the_output_folder(graded):
    assert graded["changed"] == []
    assert not (graded["folder"] / "planted").exists(), "a file of the submissions was imported"


def test_learner_code_saw_no_secret(graded):
    for name in ("spy", "spy-at-call"):
        text = json.dumps(graded["results"][name]["cells"])
        assert "[]" in text or name == "spy-at-call", text
        for secret in ("hidden-text", "ana@", "Lima", "Softmax and attention", "precious"):
            assert secret not in text


def test_nothing_could_be_opened_for_writing_or_deleted(graded):
    cells = graded["results"]["deleted-files"]["cells"]
    assert (cells[0]["error"], cells[0]["output"]) == ("", "[]\n"), cells[0]


def test_raw_system_calls_all_failed(graded):
    cells = graded["results"]["raw-system-calls"]["cells"]
    assert "worked []" in cells[0]["output"], cells


def test_no_limit_could_be_raised(graded):
    cells = graded["results"]["raised-limits"]["cells"]
    assert "raised" not in cells[0]["output"]
    assert not cells[0]["error"]


def test_reports_hold_no_markup_of_a_learner_and_no_hidden_text(graded):
    out = graded["out"]
    for path in [
        *out.glob("feedback/*.html"),
        *out.glob("gradescope/*.json"),
        out / "summary.html",
    ]:
        text = path.read_text(encoding="utf-8")
        assert "hidden-text" not in text, path
        assert "test_large_scores" not in text or path.name == "summary.html", path
        assert "<script" not in text.lower() or path.suffix == ".json", path
        assert "\x1b" not in text, path
        assert "\u202e" not in text or path.suffix == ".json", path


def test_no_cell_of_the_gradebook_is_a_formula(graded):
    for name in ("gradebook.csv", "gradebook-canvas.csv", "gradebook-moodle.csv"):
        with open(graded["out"] / name, encoding="utf-8", newline="") as source:
            cells = [cell for row in csv.reader(source) for cell in row]
        assert cells
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
