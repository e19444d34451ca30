"""Build the book: execute what changed, build the pages, serve on request.

    python tools/build_book.py              build into _build/html
    python tools/build_book.py --serve      build, then serve at http://127.0.0.1:8000
    python tools/build_book.py --force      execute and build everything anew
    python tools/build_book.py --strict     publish nothing unless everything is clean

A chapter whose cell fails keeps no other page from being built: its own page says at that cell what
went wrong. The exit status is 1 then, and the last lines say so. With ``--strict``, which is for
continuous integration and deployment, a failing cell or a warning leaves no page at all.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
BUILD = ROOT / "_build"
HTML = BUILD / "html"
OUTCOME = BUILD / "book.json"
FINISHED = HTML / ".buildkey.json"  # written by book/_ext/course_pages.py at the very end
sys.path.insert(0, str(ROOT / "book" / "_ext"))
sys.path.insert(0, str(ROOT / "tools"))
from course_execution import execution_key, hash_files  # noqa: E402
from outcome import Outcome, read, write  # noqa: E402
from processes import lossless, say  # noqa: E402

HEARTBEAT_SECONDS = 10
SINGLE_INPUTS = ("_config.yml", "_toc.yml", "pyproject.toml", "CHANGELOG.md")


def inputs_hash():
    """Hash everything that the book is made of."""
    folders = [ROOT / "book", ROOT / "chapters", ROOT / "exercises"]
    files = [f for folder in folders for f in folder.rglob("*") if f.is_file()]
    files = [f for f in files if "__pycache__" not in f.parts and ".ipynb_check" not in str(f)]
    files += [ROOT / name for name in SINGLE_INPUTS if (ROOT / name).exists()]
    return hash_files(files, ROOT) + execution_key(ROOT)


def is_fresh():
    """Say whether a clean book belongs to the present inputs."""
    built = (HTML / "index.html").exists() and read(OUTCOME).clean
    return built and read(OUTCOME).inputs == inputs_hash()


def execute(workers):
    """Execute the chapters that changed; print tracebacks; return what failed."""
    from execute_chapters import fill_cache

    start = time.perf_counter()
    say("Chapters")
    failures = fill_cache(ROOT, workers, say)
    for run in failures:
        say(f"\n{run.path.relative_to(ROOT)}, cell '{run.cell}':\n{run.failure}")
    say(f"  {time.perf_counter() - start:.1f} s")
    return [(run.path.stem, run.cell, run.trouble["came"].splitlines()[0]) for run in failures]


def wait_for(process, start):
    """Wait for a process, with a sign of life now and then; return its exit status."""
    while True:
        try:
            return process.wait(HEARTBEAT_SECONDS)
        except subprocess.TimeoutExpired:
            say(f"  … {time.perf_counter() - start:.0f} s")


def build_pages():
    """Run Jupyter Book; return how it went: "clean", "warned", or "none" where it broke off."""
    start = time.perf_counter()
    say("Pages")
    FINISHED.unlink(missing_ok=True)
    code = "from jupyter_book.cli.main import main; main()"
    command = [sys.executable, "-c", code, "build", str(ROOT), "-W", "-n", "--keep-going", "-q"]
    path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)
    spoken = f"{sys.stderr.encoding}:backslashreplace"
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": spoken}
    # Warnings arrive on stderr; what Jupyter Book says on stdout is how to open the pages.
    process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL)
    passed = wait_for(process, start) == 0
    if not passed:
        # Sphinx does not repeat the warnings of pages that it keeps: keep none.
        shutil.rmtree(BUILD / ".doctrees", ignore_errors=True)
    pages = "clean" if passed else "warned" if FINISHED.exists() else "none"
    say(f"  {pages} after {time.perf_counter() - start:.1f} s: {HTML}")
    return pages


def build(workers, force, strict):
    """Build the book if anything changed; return the outcome."""
    if force:
        shutil.rmtree(BUILD, ignore_errors=True)
    if is_fresh():
        say(f"The book is up to date: {HTML}")
        return read(OUTCOME)
    OUTCOME.unlink(missing_ok=True)
    outcome = Outcome(inputs_hash(), strict=strict)
    outcome.failures = execute(workers)
    if not (strict and outcome.failures):
        outcome.pages = build_pages()
    if strict and not outcome.clean:
        outcome.pages = "none"
        shutil.rmtree(HTML, ignore_errors=True)  # nothing half-built, nothing older
    write(OUTCOME, outcome)
    return outcome


class QuietHandler(SimpleHTTPRequestHandler):
    """A file server that prints nothing per request."""

    def log_message(self, *args):
        """Stay silent."""


def serve(port):
    """Serve the built book on this machine until interrupted."""
    handler = partial(QuietHandler, directory=str(HTML))
    for candidate in (*range(port, port + 20), 0):
        try:
            server = ThreadingHTTPServer(("127.0.0.1", candidate), handler)
            break
        except OSError:
            continue
    say(f"The book is at http://127.0.0.1:{server.server_port}/  (Ctrl+C stops)")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        say("")


def main(arguments=None):
    """Run the command line; return the exit status."""
    lossless()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", nargs="?", const=8000, type=int, metavar="PORT")
    parser.add_argument("--serve-only", type=int, metavar="PORT", help="serve what is built")
    parser.add_argument("--force", action="store_true", help="execute and build everything anew")
    parser.add_argument("--strict", action="store_true", help="publish nothing unless all is clean")
    parser.add_argument("--workers", type=int, default=2, help="chapters executed side by side")
    options = parser.parse_args(arguments)
    if options.serve_only is not None:
        serve(options.serve_only)
        return 0
    outcome = build(options.workers, options.force, options.strict)
    say("\n".join(outcome.last_words()))
    if options.serve is not None and outcome.pages != "none":
        serve(options.serve)
        say("\n".join(outcome.last_words()))
    return outcome.code


if __name__ == "__main__":
    raise SystemExit(main())
