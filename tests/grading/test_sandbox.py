"""The walls hold, the deadline ends everything, and a question pays only for itself."""

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from attncourse.grading import backends, sandbox
from attncourse.grading.backends import Isolation, SandboxError, choose, command, refuse_exposure
from attncourse.grading.cells import Cell
from attncourse.grading.doctor import examine
from attncourse.grading.inside import confine
from attncourse.grading.inside.wire import StudentError, WireError
from attncourse.grading.remote import SandboxTransport
from attncourse.grading.sandbox import Died, Sandbox, TimedOut
from attncourse.grading.student import Student

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="these walls are Linux's"
)
SMALL = Isolation(memory_bytes=1 << 30)


@pytest.fixture
def box(bwrap):
    """Return a sandbox that is ended after the test."""
    made = Sandbox(SMALL, {})
    yield made
    made.kill()


def run(box, source, seconds=20.0):
    """Run a cell; return its error and its output."""
    value = box.ask({"do": "cell", "source": source}, seconds)["value"]
    return value["error"], value["output"].strip()


def test_nothing_but_what_is_listed_can_be_seen(box):
    tops = run(box, "import os\nprint(sorted(os.listdir('/')))")[1]
    allowed = {Path(path).parts[1] for path in backends.mounts()} | {"dev", "tmp", "worker"}
    allowed |= {"lib", "lib64", "lib32", "usr"}
    assert set(json.loads(tops.replace("'", '"'))) <= allowed
    mounted = [Path(path).parts for path in backends.mounts()]  # where an environment lies in /tmp
    expected = {".ipython"} | {parts[2] for parts in mounted if parts[1] == "tmp"}
    seen = run(box, "print(os.listdir('/tmp'))")[1]
    assert set(json.loads(seen.replace("'", '"'))) == expected, "IPython's own, and empty"
    assert run(box, "print(sorted(os.listdir('/dev')))")[1] == "['null', 'urandom', 'zero']"


@pytest.mark.parametrize("place", ["/x", "/dev/x", "/worker/attncourse/x", "/usr/lib/x"])
def test_nothing_but_tmp_can_be_written(box, place):
    assert "OSError" in run(box, f"open({place!r}, 'w')")[0]


def test_tmp_has_a_size(box):
    error, _ = run(box, "for n in range(9): open(f'/tmp/{n}', 'wb').write(bytes(15 << 20))")
    assert "No space left" in error
    error, _ = run(box, "open('/tmp/big', 'wb').write(bytes(40 << 20))")
    assert "OSError" in error


def test_environment_arguments_and_descriptors_tell_nothing(box):
    _, seen = run(box, "import os, sys\nprint(dict(os.environ), sys.argv, sys.orig_argv)")
    for secret in (str(Path.home()) + "/", os.environ.get("USER", "no-user-name"), "exercise"):
        cleaned = seen.replace(sys.base_prefix, "").replace(sys.prefix, "")
        assert secret not in cleaned
    opened = (
        "import stat\ndef kind(n):\n    try:\n        mode = os.fstat(n).st_mode\n"
        "        pipe, device = stat.S_ISFIFO(mode), stat.S_ISCHR(mode)\n"
        "        other = 'socket' if stat.S_ISSOCK(mode) else 'epoll'\n"
        "        return 'pipe' if pipe else 'device' if device else other\n"
        "    except OSError:\n        return None\n"
        "print([k for k in map(kind, range(4096)) if k])"
    )
    kinds = sorted(json.loads(run(box, opened)[1].replace("'", '"')))
    loop = ["epoll", "socket", "socket"]  # the worker's own, for cells with `await`
    assert kinds == sorted(["device"] * 3 + ["pipe"] * 2 + loop)


def test_the_worker_is_nobody_and_has_no_rights(box):
    code = (
        "import ctypes, os\nlibc = ctypes.CDLL(None)\n"
        "print(os.getuid(), os.getgid(), os.getpid() < 10,"
        " [libc.prctl(23, c, 0, 0, 0) for c in range(40) if libc.prctl(23, c, 0, 0, 0) > 0])"
    )
    assert run(box, code)[1] == "65534 65534 True []"


def test_every_call_on_the_list_is_refused(bwrap):
    table = confine.denied(platform.machine())
    code = (
        "import ctypes, sys\nfrom attncourse.grading.inside.confine import confine\n"
        "confine(1 << 30, 30)\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        f"for n in {sorted(table.values())}:\n"
        "    ctypes.set_errno(0)\n"
        "    got = libc.syscall(n, -1, -1, -1, -1, -1, -1), ctypes.get_errno()\n"
        "    assert got == (-1, 1), (n, got)\n"
        "libc.syscall(451, 0)\nassert ctypes.get_errno() == 38\nprint('all refused')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "all refused", done.stderr


def test_an_unknown_machine_is_refused_and_both_tables_are_whole():
    with pytest.raises(confine.FilterError, match="riscv64"):
        confine.filter_program("riscv64")
    for machine in ("x86_64", "aarch64"):
        numbers = confine.denied(machine).values()
        assert len(set(numbers)) == len(numbers) > 80, machine
        orders = 1 + 1 + 2 * len(confine._FCNTL_DENIED) + 1
        assert len(confine.filter_program(machine)) == 8 * (7 + orders + 2 * len(numbers))


SHARED = "import fcntl, os\nfd = os.open(os.__file__, os.O_RDONLY)\n"
CHANNELS = {
    "socketpair": "import socket\nsocket.socketpair()",
    "flock": SHARED + "fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)",
    "record-lock": SHARED + "fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)",
    "who-locks": SHARED + "fcntl.fcntl(fd, fcntl.F_GETLK, bytes(32))",
    "lease": SHARED + "fcntl.fcntl(fd, 1024, 0)",
    "notes": SHARED + "fcntl.fcntl(os.open('/usr/lib', os.O_RDONLY), 1026, 1)",
    "page-cache": SHARED + "os.preadv(fd, [bytearray(1)], 0, os.RWF_NOWAIT)",
    "advice": SHARED + "os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)",
    "inotify": "import ctypes\nc = ctypes.CDLL(None, use_errno=True)\n"
    "assert c.inotify_init() == -1\nraise OSError(ctypes.get_errno(), 'Operation not permitted')",
}


@pytest.mark.parametrize("name", CHANNELS)
def test_what_sandboxes_share_carries_nothing(box, name):
    """Each of these told one submission something about another, or took memory past all limits."""
    error, _ = run(box, CHANNELS[name])
    assert "Operation not permitted" in error


def test_what_fcntl_is_for_still_works(box):
    code = SHARED + "print(fcntl.fcntl(fd, fcntl.F_GETFD), fcntl.fcntl(fd, fcntl.F_GETFL) >= 0)"
    assert run(box, code) == ("", "1 True")


def test_a_cell_may_still_wait_for_itself(box):
    """Top-level `await` needs no socket."""
    assert run(box, "async def two(): return 2\nprint(await two())") == ("", "2")


def test_the_course_in_the_base_interpreter_is_masked(monkeypatch, tmp_path):
    package = tmp_path / "lib/python3.11/site-packages/attncourse"
    package.mkdir(parents=True)
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    assert str(package) in backends.masked()


def test_processor_time_is_what_counts(bwrap):
    """A busy machine makes the clock run on; only work and very long waits cost a question."""
    wait = "import time\ndef wait(n):\n    time.sleep(n)\n    return n\n"
    work = "def work():\n    while True: pass\n"
    learner = remote(Cell(1, wait, "q1"), Cell(2, work, "q2"), q1=1.0, q2=1.0)
    assert on(learner, "q1", lambda s: s.wait(2.0)) == 2.0
    assert learner.accounts["q1"].used == pytest.approx(0.5, abs=0.2)
    began = time.monotonic()
    with pytest.raises(StudentError, match="time limit of 1 s"):
        on(learner, "q2", lambda s: s.work())
    assert time.monotonic() - began < 3.5, "its own work is stopped long before the clock"
    with pytest.raises(StudentError, match="time limit of 1 s"):
        on(learner, "q1", lambda s: s.wait(60.0))
    learner.close()


def test_a_filter_that_does_not_hold_stops_the_worker(monkeypatch):
    monkeypatch.setattr(
        confine, "filter_program", lambda _: bytes.fromhex("0600000000 00ff7f".replace(" ", ""))
    )
    child = os.fork()
    if child == 0:
        try:
            confine._put_on_filter()
        except confine.FilterError:
            os._exit(42)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42


@pytest.mark.parametrize(
    "how", ["while True: pass", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)"]
)
def test_the_deadline_ends_everything(box, how):
    first = box.first_pid
    began = time.monotonic()
    with pytest.raises(TimedOut):
        run(box, how, seconds=0.5)
    assert time.monotonic() - began < 10
    assert not os.path.exists(f"/proc/{first}")
    with pytest.raises(Died):
        run(box, "1")


def test_a_worker_dies_with_the_grader(bwrap):
    code = (
        "from attncourse.grading.sandbox import Sandbox\n"
        "from attncourse.grading.backends import Isolation\n"
        "box = Sandbox(Isolation(), {})\nprint(box.first_pid, box.worker_pid(), flush=True)\n"
        "box.ask({'do': 'cell', 'source': 'while True: pass'}, 100)"
    )
    grader = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pids = grader.stdout.readline().split()
    grader.kill()
    grader.communicate()
    until = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_a_reply_that_is_too_large_is_not_read(bwrap):
    box = Sandbox(SMALL, {}, sandbox.Limits(frame_bytes=10_000))
    run(box, "import numpy as np\ndef big(n): return np.zeros(n)")
    ask = {"do": "call", "name": "big", "kwargs": {}}
    assert box.ask({**ask, "args": [100]}, 5.0)["value"].size == 100
    with pytest.raises(WireError, match="at most 10000"):
        box.ask({**ask, "args": [10_000]}, 5.0)
    assert box.process.poll() is not None


def test_memory_is_read_from_outside(box):
    before = box.peak_bytes()
    run(box, "import numpy as np\nx = np.ones(10_000_000)\ndel x")
    assert 70e6 < box.peak_bytes() - before < 120e6


def test_auto_never_means_none():
    with pytest.raises(SandboxError, match="nothing is graded without one"):
        choose("auto", works=[])
    with pytest.raises(SandboxError, match="i-trust"):
        choose("none")
    with pytest.raises(SandboxError, match="not installed"):
        choose("podman", works=["bwrap"])
    assert choose("auto", trusted=True, works=["bwrap"]) == "bwrap"
    assert choose("none", trusted=True) == "none"


def test_a_worker_that_does_not_start_is_our_fault(monkeypatch, bwrap):
    monkeypatch.setattr(backends, "START", "raise SystemExit('broken')")
    with pytest.raises(SandboxError, match="broken"):
        Sandbox(SMALL, {})
    monkeypatch.undo()
    with pytest.raises(SandboxError, match="libtorch"):
        Sandbox(Isolation(memory_bytes=120 << 20), {"f": "torch"})
    monkeypatch.setattr(sandbox, "command", lambda *_: ["bwrap", "--no-such-option"])
    with pytest.raises(SandboxError, match="no-such-option"):
        Sandbox(SMALL, {})


def test_secrets_below_a_mount_stop_the_grader():
    refuse_exposure([Path.cwd()] if not str(Path.cwd()).startswith("/usr") else [])
    with pytest.raises(SandboxError, match="visible inside"):
        refuse_exposure([Path(np.__file__).parent / "exercise"])


def test_an_installed_course_package_is_shown_empty(bwrap, monkeypatch, tmp_path):
    """Its answers would be one import away."""
    package = tmp_path / "site/attncourse"
    package.mkdir(parents=True)
    (package / "softmax.py").write_text("answer = 42")
    folders = backends._package_folders()
    monkeypatch.setattr(backends, "_package_folders", lambda: [*folders, str(tmp_path / "site")])
    box = Sandbox(SMALL, {})
    seen = f"import os\nprint(os.listdir({str(package.parent)!r}), os.listdir({str(package)!r}))"
    assert run(box, seen)[1] == "['attncourse'] []"
    assert "OSError" in run(box, f"open({str(package / 'x')!r}, 'w')")[0]
    code = "import sys\nsys.path.remove('/worker')\nfor n in [*sys.modules]:\n"
    code += "    if n.startswith('attncourse'): del sys.modules[n]\nimport attncourse.softmax"
    assert "ModuleNotFoundError" in run(box, code)[0]
    box.kill()
    refuse_exposure([package / "exercises"])
    with pytest.raises(SandboxError, match="visible"):
        refuse_exposure([package.parent / "other"])


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_container_is_shut_as_tightly(engine):
    words = command(Isolation(engine, image="img"), "name")
    line = " ".join(words)
    for needed in (
        *("--network none", "--read-only", "--cap-drop ALL", "no-new-privileges", "--pids-limit"),
        *("--memory ", "--user 65534:65534", "--ipc none", "--name name", "--rm"),
    ):
        assert needed in line
    volumes = [words[i + 1] for i, word in enumerate(words) if word == "--volume"]
    assert volumes
    assert all(volume.endswith(":ro") for volume in volumes)
    assert words.index("img") > words.index("--volume")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root may")
def test_nobody_reads_nothing_and_leaves_no_trace(bwrap, tmp_path):
    """Try the backend `user` where this Python may be run by everybody."""
    code = (
        "import sys\nfrom attncourse.grading.doctor import examine\n"
        "from attncourse.grading.sandbox import Sandbox\n"
        "from attncourse.grading.backends import Isolation\nprint(examine('user', '').state)\n"
        "box = Sandbox(Isolation('user'), {})\nask = {'do': 'cell'}\n"
        "ask['source'] = 'import os; print(os.getuid(), os.getgroups())'\n"
        "print(box.ask(ask, 20)['value']['output'])\nbox.kill()"
    )
    # A private /root would hide a Python that is installed below it from everybody else.
    base = Path(sys.base_prefix)
    words = ["bwrap", "--dev-bind", "/", "/", "--cap-add", "ALL"]
    if base.is_relative_to("/root"):
        top = str(Path(*base.parts[:3]))
        words += ["--perms", "0755", "--tmpfs", "/root", "--ro-bind", top, top]
    words += ["--setenv", "PYTHONPATH", str(Path(backends.HERE).parents[1])]
    done = subprocess.run(
        [*words, sys.executable, "-c", code], capture_output=True, text=True, timeout=90
    )
    assert done.stdout.split("\n")[:2] == ["holds", "65534 []"], done.stdout + done.stderr


def test_the_backend_user_minds_the_rights_of_files(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    with pytest.raises(SandboxError, match="only root"):
        choose("user")
    with pytest.raises(SandboxError, match="chmod 700"):
        refuse_exposure(["/usr/lib"], "user")
    tmp_path.chmod(0o700)
    refuse_exposure([tmp_path], "user")


def test_the_doctor_believes_attacks_only(bwrap):
    assert examine("bwrap", "").state == "holds"
    open_door = examine("none", "")
    assert open_door.state == "leaks"
    assert open_door.details["read a file"] == "SUCCEEDED"


ONE = Cell(1, "calls = 0\ndef good(x):\n    return x + 1", "q1")
TWO = Cell(
    2,
    "import os\ndef hang():\n    while True: pass\ndef leave():\n    os._exit(3)\n"
    "def greedy():\n    return bytearray(1 << 40)\n"
    "class Box:\n    def __init__(self, n): self.n = n\n"
    "    def more(self): self.n += 1; return self.n",
    "q2",
)


def remote(*cells, q1=5.0, q2=2.0, starts=None):
    """Return a student; `starts` counts the workers."""
    counted = starts if starts is not None else []

    def start():
        counted.append(1)
        return Sandbox(SMALL, {})

    return Remote(start, cells or (ONE, TWO), {"q1": q1, "q2": q2})


class Remote(SandboxTransport):
    """A transport, and the student that asks through it."""

    def __init__(self, *args):
        super().__init__(*args)
        self.trace = []
        self.student = Student(self, self.trace)


@pytest.fixture
def learner(bwrap):
    made = remote()
    yield made
    made.close()


def on(learner, question, action):
    """Let a student ask something on a question's account."""
    learner.begin(question)
    try:
        return action(learner.student)
    finally:
        learner.begin(None)


def test_a_hang_costs_its_own_question_only(learner):
    with pytest.raises(StudentError, match="time limit of 2 s"):
        on(learner, "q2", lambda s: s.hang())
    with pytest.raises(StudentError, match="used up"):
        on(learner, "q2", lambda s: s.hang())
    assert on(learner, "q1", lambda s: s.good(1)) == 2
    assert {name: account.status for name, account in learner.accounts.items()} == {
        "q1": "graded",
        "q2": "timeout",
        "": "graded",
    }


def test_a_death_is_forgiven_thrice(bwrap):
    starts = []
    learner = remote(starts=starts, q2=60.0)
    for _ in range(3):
        with pytest.raises(StudentError, match="exit status 3"):
            on(learner, "q2", lambda s: s.leave())
    with pytest.raises(StudentError, match="ended 3 times"):
        on(learner, "q2", lambda s: s.leave())
    assert on(learner, "q1", lambda s: s.good(1)) == 2
    assert len(starts) == 4
    learner.close()


def test_greed_is_called_memory(learner):
    with pytest.raises(StudentError, match="MemoryError"):
        on(learner, "q2", lambda s: s.greedy())
    assert learner.accounts["q2"].status == "memory"


def test_a_guilty_cell_is_skipped_and_the_rest_runs(bwrap):
    bad = Cell(3, "while True: pass", "q2")
    late = Cell(4, "def later():\n    return 4", "q1")
    learner = remote(ONE, bad, late, q2=0.5)
    assert on(learner, "q1", lambda s: s.later()) == 4
    assert learner.accounts["q2"].status == "timeout"
    assert "time limit" in learner.reports[3]["error"]
    assert learner.accounts["q1"].status == "graded"
    learner.close()


def test_fresh_starts_cannot_hold_the_grader(bwrap):
    cells = [Cell(n, f"import time; time.sleep(0.5)  # {n}", "q1") for n in range(3, 7)]
    learner = remote(ONE, TWO, *cells, q1=4.0, q2=4.0)
    learner.accounts[""].seconds = learner.replay_left = 3.0
    began = time.monotonic()
    for _ in range(6):
        with pytest.raises(StudentError):
            on(learner, "q2", lambda s: s.leave())
    assert learner.replay_left < 3.0
    assert all(account.used <= 4.5 for account in learner.accounts.values())
    assert time.monotonic() - began < 60
    learner.replay_left = 0.0
    learner.close()
    learner.accounts["q1"].used = 0.0
    with pytest.raises(StudentError, match="you have not defined good"):
        on(learner, "q1", lambda s: s.good(1))
    assert "fresh starts" in learner.accounts["q1"].notes[-1]
    learner.close()


def test_how_a_cell_ends_when_it_is_run_again_is_not_told(bwrap):
    """By then tests have been asked: an exit status could carry their numbers out."""
    began = time.time()
    clock = Cell(1, f"import os, time\nlate = time.time() > {began + 4}", "q1")
    teller = Cell(3, "if late: os._exit(77)", "q1")
    learner = remote(clock, Cell(2, TWO.source, "q2"), teller, q1=60.0, q2=60.0)
    with pytest.raises(StudentError, match="exit status 3"):
        on(learner, "q2", lambda s: s.leave())
    report = dict(learner.reports[3])
    time.sleep(max(0.0, began + 4.1 - time.time()))
    with pytest.raises(StudentError):
        on(learner, "q2", lambda s: s.leave())
    assert "exit status 77" in learner.accounts["q1"].notes[-1], "it has happened"
    assert learner.reports[3] == report
    assert report["error"] == ""
    learner.close()


def test_results_are_bounded_together_too(bwrap):
    cell = Cell(1, "import numpy as np\ndef big():\n    return np.zeros(1 << 20)", "q1")
    learner = remote(cell, q1=60.0)
    kept = []

    def ask_on():
        for _ in range(20):
            kept.append(on(learner, "q1", lambda s: s.big()))

    with pytest.raises(StudentError, match="too large together"):
        ask_on()
    assert sum(each.nbytes for each in kept) < 80 << 20
    learner.close()


def test_objects_stay_in_the_worker(learner):
    def play(student):
        student.new("Box", 7)
        box = student.new("Box", 3)
        assert (box.more(), box.get("n")) == (4, 4)
        with pytest.raises(StudentError, match="exit status"):
            student.leave()
        with pytest.raises(StudentError, match="object is gone"):
            box.more()

    on(learner, "q2", play)
    assert [asked.request["do"] for asked in learner.trace[:3]] == ["new", "new", "method"]
    assert learner.trace[2].request["handle"] == 1
    assert on(learner, "q2", lambda s: s.new("Box", 8).get("n")) == 8
    assert learner.trace[-1].request["handle"] == 0, "numbered within its test"


WASTEFUL = "import numpy as np\ndef wasteful(n):\n    return float(np.ones(n).sum())"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "import numpy as np\nkept = np.ones(20_000_000)",
        "import numpy as np\nnp.ones(40_000_000)",
        "import matplotlib.pyplot",
    ],
)
def test_memory_of_a_call_is_measured(bwrap, before):
    learner = remote(Cell(1, before), Cell(2, WASTEFUL, "q1"))
    for _ in range(2):
        value, peak = on(learner, "q1", lambda s: s.measure("wasteful", 10_000_000))
        assert value == 10_000_000
        assert 70e6 < peak < 90e6
    _, peak = on(learner, "q1", lambda s: s.measure("wasteful", 10))
    assert peak < 5e6, "an earlier call does not count"
    learner.close()


def test_memory_is_measured_in_a_fresh_worker_where_peaks_stay(bwrap, monkeypatch):
    monkeypatch.setattr(Sandbox, "reset_peak", lambda _: False)
    kept = Cell(1, "import numpy as np\nkept = np.ones(20_000_000)")
    learner = remote(kept, Cell(2, WASTEFUL, "q1"))
    on(learner, "q1", lambda s: s.wasteful(20_000_000))
    _, peak = on(learner, "q1", lambda s: s.measure("wasteful", 10_000_000))
    assert 70e6 < peak < 90e6
    learner.close()


BUFFER = "import numpy as np\nbuffer = np.ones(10_000_000)\n"
INTO = "def wasteful(n):\n    buffer[:n] = 1.0\n    return float(buffer[:n].sum())"
LAZY = (
    "import numpy as np\nkept = {}\ndef wasteful(n):\n"
    "    kept.setdefault(0, np.ones(10_000_000))[:n] = 1.0\n    return float(n)"
)


@pytest.mark.parametrize(
    "cells",
    [[Cell(1, BUFFER + INTO, "q1")], [Cell(1, BUFFER), Cell(2, INTO, "q1")], [Cell(1, LAZY, "q1")]],
    ids=["beside-the-answer", "in-another-cell", "at-the-first-call"],
)
def test_a_buffer_made_beforehand_counts(bwrap, cells):
    """Memory that is there already is newly touched by nobody."""
    learner = remote(*cells)
    on(learner, "q1", lambda s: s.wasteful(10))
    _, peak = on(learner, "q1", lambda s: s.measure("wasteful", 5_000_000))
    assert peak > 70e6
    learner.close()


def test_a_measured_answer_may_need_the_rest_of_the_notebook(bwrap):
    helper = Cell(1, "def helper(n):\n    return n + 1")
    learner = remote(helper, Cell(2, "def wasteful(n):\n    return helper(n)", "q1"))
    value, peak = on(learner, "q1", lambda s: s.measure("wasteful", 1))
    assert (value, peak < 5e6) == (2, True)
    assert on(learner, "q1", lambda s: s.wasteful(2)) == 3, "later calls find a whole notebook"
    learner.close()


def test_a_worker_that_somebody_else_kills_is_tried_once_more(bwrap, monkeypatch, exercise):
    """As the kernel does where memory is short: that is no fault of the learner."""
    import mini

    from attncourse.grading.grade import Job, grade
    from attncourse.grading.settings import Settings

    killed, ask = [], Sandbox.ask

    def ask_and_kill(self, request, *rest):
        if request.get("do") == "call" and len(killed) < limits[-1]:
            killed.append(os.kill(self.worker_pid(), 9))
            time.sleep(0.2)
        return ask(self, request, *rest)

    monkeypatch.setattr(Sandbox, "ask", ask_and_kill)
    job = Job("ana", mini.answers(), Settings(str(exercise)))
    limits = []
    for limit, wanted in ((1, ("4.5", "graded")), (9, ("0", "died"))):
        killed.clear()
        limits.append(limit)
        result = grade(job)
        assert (result["points"], result["status"]) == wanted


def test_a_missing_name_is_said_kindly(learner):
    with pytest.raises(StudentError, match="you have not defined absent"):
        learner.student.absent()


def test_our_own_failure_is_kept_apart(bwrap):
    def broken():
        raise SandboxError("no isolation today")

    learner = Remote(broken, [], {"q1": 1.0})
    with pytest.raises(SandboxError):
        learner.student.anything()
    assert learner.broken == "no isolation today"


FORGE = (
    "import gc, os, numpy as np\nfrom attncourse.grading.inside.worker import Channel\n"
    "channel = next(thing for thing in gc.get_objects() if isinstance(thing, Channel))\n"
    "honest = channel.send\n"
)


@pytest.mark.parametrize(
    "lie",
    [
        "m['id'] = np.zeros(2)",
        "m['ok'] = np.ones(2)",
        "m.update(ok=False, kind=np.zeros(2), text='x')",
        "m.update(ok=False, kind='memory', text=np.zeros(2))",
        "m['value'] = {'error': np.zeros(2), 'output': '', 'memory': False}",
        "m['value'] = {'error': '', 'output': np.zeros(2), 'memory': False}",
        "m['value'] = {'error': '', 'output': '', 'memory': np.zeros(2)}",
        "m['value'] = np.zeros(2)",
    ],
)
def test_an_array_in_place_of_a_text_is_the_learners_fault(bwrap, lie):
    source = f"{FORGE}def send(m):\n    {lie}\n    honest(m)\nchannel.send = send"
    learner = remote(Cell(1, source, "q1"), Cell(2, ONE.source, "q2"))
    assert on(learner, "q2", lambda s: s.good(1)) == 2
    assert learner.accounts["q1"].status == "died"
    assert not learner.broken
    learner.close()


@pytest.mark.parametrize("error", [MemoryError("no room"), RecursionError("deep"), KeyError("x")])
def test_whatever_a_reply_does_to_us_is_booked_on_the_question(bwrap, monkeypatch, error):
    def fail(data, limits=None):
        raise error

    learner = remote()
    assert on(learner, "q1", lambda s: s.good(1)) == 2
    box = learner._sandbox
    with monkeypatch.context() as patch:
        patch.setattr(sandbox, "decode", fail)
        with pytest.raises(StudentError, match=type(error).__name__):
            on(learner, "q1", lambda s: s.good(1))
    assert learner.accounts["q1"].status == "died"
    assert box.process.poll() is not None
    assert on(learner, "q2", lambda s: s.good(1)) == 2
    learner.close()


def test_a_worker_that_leaves_after_its_reply_has_died(bwrap):
    source = f"{FORGE}def f():\n    return 1\ndef send(m):\n    honest(m)\n"
    source += "    if m.get('value') == 1:\n        os._exit(0)\nchannel.send = send"
    learner = remote(Cell(1, source, "q1"))

    peak = Sandbox.peak_bytes

    def late(self):
        time.sleep(0.5)
        return peak(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sandbox, "peak_bytes", late)
        with pytest.raises(StudentError, match="right after its reply"):
            on(learner, "q1", lambda s: s.measure("f"))
    assert learner.accounts["q1"].status == "died"
    assert not learner.broken
    learner.close()


def test_what_cannot_be_sent_is_the_learners_fault_only_after_an_answer(bwrap):
    learner = remote(Cell(1, "def f(x=None):\n    return ['text']", "q1"))
    with pytest.raises(TypeError, match="dtype"):
        on(learner, "q1", lambda s: s.f(np.array(["text"])))
    with pytest.raises(StudentError, match="came before"):
        on(learner, "q1", lambda s: s.f(np.array(s.f())))
    learner.close()


def test_printing_has_an_encoding(box):
    assert run(box, "import sys\nprint('é'.encode(sys.stdout.encoding))") == ("", "b'\\xc3\\xa9'")
