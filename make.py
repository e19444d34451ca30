"""Build the environment and the book, and run the tests: what `make` runs.

Where there is no make, type ``python make.py book`` instead of ``make book``.
Only the standard library is needed; everything is installed into ``.venv`` beside this file.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))

import outcome
from environment import INSTALL_LIMIT, PYTHON, VENV, check_owner, check_python, env
from processes import ROOT, Failed, lossless, minutes, run, say

PAGES = ROOT / "_build" / "html"
OUTCOME = ROOT / "_build" / "book.json"

BUILD_STEP = "build the book"

# Seconds after which a step is stopped: a kernel or a browser that hangs must not hang us.
BOOK_LIMIT, TEST_LIMIT, CHECK_LIMIT = 1500, 2700, 300
STEADY_LIMIT = 4 * 3600


def serve(port: int) -> None:
    """Serve the built book to this machine only, until Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt):
        subprocess.call([str(PYTHON), "tools/build_book.py", "--serve-only", str(port)], cwd=ROOT)
    say("The server has ended; the pages stay in _build/html.")


def book(options: argparse.Namespace) -> None:
    """Make the environment, build the book, serve what there is of it."""
    start = time.monotonic()
    env()
    strict = ["--strict"] if options.strict else []
    code, _ = run([PYTHON, "tools/build_book.py", *strict], BOOK_LIMIT)
    built = outcome.read(OUTCOME)
    if built.pages != "none":
        say(f"book: built in {minutes(time.monotonic() - start)}, pages in {PAGES}")
        if options.serve:
            serve(options.port)
    if code:
        reason = f"the book was not built (exit code {code}); the reason stands above"
        raise Failed("\n".join(built.last_words() if OUTCOME.exists() else []) or reason)


def test_steps(package_only: bool) -> list:
    """Return the checks: name, command, seconds they may take, extra variables."""
    jobs = ["-n", os.environ.get("JOBS") or "2"]
    color = ["--color=yes"] if sys.stdout.isatty() else []
    one_thread = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    pytest = [PYTHON, "-m", "pytest", *color, *jobs]
    chapters = ["--nbval-lax", "chapters", "--dist", "loadscope"]
    limits = ["--nbval-cell-timeout=180", "--nbval-sanitize-with=tests/sanitize.cfg"]
    checks = [
        ("ruff check", [PYTHON, "-m", "ruff", "check", "."], CHECK_LIMIT, {}),
        ("ruff format", [PYTHON, "-m", "ruff", "format", "--check", "."], CHECK_LIMIT, {}),
        ("mypy", [PYTHON, "-m", "mypy"], CHECK_LIMIT, {}),
        ("notebooks are clean", [PYTHON, "tools/check_notebooks.py"], CHECK_LIMIT, {}),
        ("one address", [PYTHON, "tools/address.py", "--check"], CHECK_LIMIT, {}),
    ]
    if package_only:
        marks = ["-m", "not book and not browser"]
        return [*checks, ("pytest (package)", [*pytest, *marks], TEST_LIMIT, one_thread)]
    return [
        *checks,
        (BUILD_STEP, [PYTHON, "tools/build_book.py", "--strict"], BOOK_LIMIT, {}),
        ("pytest", pytest, TEST_LIMIT, one_thread),
        ("chapters again", [*pytest, *chapters, *limits], TEST_LIMIT, one_thread),
    ]


def without_book(name: str) -> list:
    """Return what a step leaves out after the book failed, so that this is said once."""
    if name == "pytest":
        return ["-m", "not book"]
    if name == "chapters again":
        failed = [chapter for chapter, *_ in outcome.read(OUTCOME).failures]
        return [f"--ignore=chapters/{chapter}.ipynb" for chapter in failed]
    return []


def closing_line(lines: list) -> str:
    """Return pytest's last line without its ornaments: ``12 passed, 1 skipped in 3.45s``."""
    plain = (re.sub(r"\x1b\[[0-9;]*m", "", line).strip("= ") for line in reversed(lines))
    return next((line for line in plain if re.match(r"\d+ \w+.* in [\d.]+s", line)), "")


def test(options: argparse.Namespace) -> None:
    """Run every check, also after one failed, and sum up."""
    env()
    rows, tally = [], {"passed": 0, "failed": 0, "error": 0, "skipped": 0}
    book_failed = False
    for name, command, limit, variables in test_steps(options.package):
        say(f"\n=== {name}")
        start = time.monotonic()
        left_out = without_book(name) if book_failed else []
        if left_out:
            say(f"the book failed above; left out here: {' '.join(left_out)}")
        code, lines = run([*command, *left_out], limit, **variables)
        book_failed |= name == BUILD_STEP and code != 0
        closing = closing_line(lines) if "pytest" in command else ""
        for count, word in re.findall(r"(\d+) (passed|failed|error|skipped)", closing):
            tally[word] += int(count)
        rows.append((name, code, time.monotonic() - start, closing))
        say(f"--- {name}: {'ok' if code == 0 else 'FAILED'}, {minutes(rows[-1][2])}")
    say("\n" + "=" * 78)
    for name, code, seconds, closing in rows:
        state = "ok" if code == 0 else f"FAILED ({code})"
        say(f"{name:<22}{state:<14}{minutes(seconds):>12}   {closing}")
    failed = [name for name, code, *_ in rows if code]
    say(f"{len(rows) - len(failed)} of {len(rows)} steps ok" + ", ".join(["", *failed]))
    broken = tally["failed"] + tally["error"]
    say(f"tests: {tally['passed']} passed, {broken} failed, {tally['skipped']} skipped")
    if failed:
        raise Failed("failed: " + ", ".join(failed))


def steady(options: argparse.Namespace) -> None:
    """Execute the chapters under other seeds and other arithmetic."""
    env()
    code, _ = run([PYTHON, "tools/steady", *options.rest], STEADY_LIMIT)
    if code:
        reason = "not every chapter is steady" if code == 1 else f"it broke off (exit code {code})"
        raise Failed(f"{reason}; the lines above say where")


def clean(options: argparse.Namespace) -> None:
    """Remove what was built (and with --all the environment too)."""
    if options.all:
        check_owner()
    for name in ["_build", "dist", ".ruff_cache", ".mypy_cache", ".pytest_cache", ".hypothesis"]:
        shutil.rmtree(ROOT / name, ignore_errors=True)
    if options.all:
        shutil.rmtree(VENV, ignore_errors=True)


def lock(_: argparse.Namespace) -> None:
    """Renew the computed half of requirements.txt."""
    check_python(sys.version_info[:2], sys.executable)
    code, _lines = run([sys.executable, "tools/lock.py"], INSTALL_LIMIT)
    if code:
        raise Failed("requirements.txt was not renewed; the reason stands above")


def chosen(variable: str, default: str) -> bool:
    """Read a yes or no from the environment: ``make book SERVE=0``."""
    return (os.environ.get(variable) or default) not in {"0", "no", "false"}


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    top = argparse.ArgumentParser(prog="python make.py", description=__doc__.splitlines()[0])
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.add_parser("env", help="make or update .venv").set_defaults(do=lambda _: env())
    part = commands.add_parser("weights", help="the same, with two trained models (170 MB)")
    part.set_defaults(do=lambda _: env(weights=True))
    part = commands.add_parser("book", help="build the book and serve it (SERVE=0: only build)")
    part.add_argument("--no-serve", dest="serve", action="store_false")
    part.add_argument("--port", type=int, default=8000)
    part.add_argument("--strict", action="store_true", help="all clean, or no page (STRICT=1)")
    part.set_defaults(do=book, serve=chosen("SERVE", "1"), strict=chosen("STRICT", "0"))
    part = commands.add_parser("test", help="run every check")
    part.add_argument("--package", action="store_true", help="without book and browser")
    part.set_defaults(do=test)
    text = "try the chapters under other seeds and arithmetic (--chapters 10 14: only these)"
    part = commands.add_parser("steady", help=text, add_help=False)
    part.set_defaults(do=steady)
    part = commands.add_parser("clean", help="remove what was built")
    part.add_argument("--all", action="store_true", help=".venv too")
    part.set_defaults(do=clean)
    commands.add_parser("lock", help="renew requirements.txt").set_defaults(do=lock)
    commands.add_parser("help", help="show this text").set_defaults(do=lambda _: top.print_help())
    return top


def main(arguments: list | None = None) -> int:
    """Run one command; return the exit code."""
    lossless()
    options, options_rest = parser().parse_known_args(arguments)
    if options_rest and options.command != "steady":
        parser().error(f"unrecognized arguments: {' '.join(options_rest)}")
    options.rest = options_rest
    # What ends us (a cancelled CI job, say) must end what we started too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        options.do(options)
    except Failed as reason:
        say(f"\n{options.command} did not finish: {reason}")
        return 1
    except KeyboardInterrupt:
        say(f"\n{options.command} was interrupted; run it again to go on.")
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
