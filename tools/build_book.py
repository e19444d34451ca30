"""Build the book: execute what changed, build with warnings as errors, serve on request.

    python tools/build_book.py              build into _build/html
    python tools/build_book.py --serve      build, then serve at http://127.0.0.1:8000
    python tools/build_book.py --force      execute and build everything anew

The exit status is not zero when a cell fails or the build warns.
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
STAMP = BUILD / "inputs.sha256"
sys.path.insert(0, str(ROOT / "book" / "_ext"))
sys.path.insert(0, str(ROOT / "tools"))
from course_execution import execution_key, hash_files  # noqa: E402

HEARTBEAT_SECONDS = 10
SINGLE_INPUTS = ("_config.yml", "_toc.yml", "pyproject.toml", "CHANGELOG.md")


def say(text):
    """Print one line of progress at once."""
    print(text, flush=True)


def inputs_hash():
    """Hash everything that the book is made of."""
    folders = [ROOT / "book", ROOT / "chapters", ROOT / "exercises"]
    files = [f for folder in folders for f in folder.rglob("*") if f.is_file()]
    files = [f for f in files if "__pycache__" not in f.parts and ".ipynb_check" not in str(f)]
    files += [ROOT / name for name in SINGLE_INPUTS if (ROOT / name).exists()]
    return hash_files(files, ROOT) + execution_key(ROOT)


def is_fresh():
    """Say whether the built book belongs to the present inputs."""
    built = (HTML / "index.html").exists() and STAMP.exists()
    return built and STAMP.read_text(encoding="utf8") == inputs_hash()


def execute(workers):
    """Execute the chapters that changed; print tracebacks; return whether all passed."""
    from execute_chapters import fill_cache

    start = time.perf_counter()
    say("Chapters")
    failures = fill_cache(ROOT, workers, say)
    for run in failures:
        say(f"\n{run.path.relative_to(ROOT)}, cell '{run.cell}':\n{run.failure}")
    say(f"  {time.perf_counter() - start:.1f} s")
    return not failures


def wait_for(process, start):
    """Wait for a process, with a sign of life now and then; return its exit status."""
    while True:
        try:
            return process.wait(HEARTBEAT_SECONDS)
        except subprocess.TimeoutExpired:
            say(f"  … {time.perf_counter() - start:.0f} s")


def build_pages():
    """Run Jupyter Book with every warning an error; return whether it passed."""
    start = time.perf_counter()
    say("Pages")
    code = "from jupyter_book.cli.main import main; main()"
    command = [sys.executable, "-c", code, "build", str(ROOT), "-W", "-n", "--keep-going", "-q"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    # Warnings arrive on stderr; what Jupyter Book says on stdout is how to open the pages.
    process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL)
    passed = wait_for(process, start) == 0
    if not passed:
        # Sphinx does not repeat the warnings of pages that it keeps: keep none.
        shutil.rmtree(BUILD / ".doctrees", ignore_errors=True)
    say(f"  {'built' if passed else 'FAILED'} in {time.perf_counter() - start:.1f} s: {HTML}")
    return passed


def build(workers, force):
    """Build the book if anything changed; return whether it stands."""
    if force:
        shutil.rmtree(BUILD, ignore_errors=True)
    if is_fresh():
        say(f"The book is up to date: {HTML}")
        return True
    STAMP.unlink(missing_ok=True)
    stamp = inputs_hash()
    if not (execute(workers) and build_pages()):
        return False
    STAMP.write_text(stamp, encoding="utf8")
    return True


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", nargs="?", const=8000, type=int, metavar="PORT")
    parser.add_argument("--force", action="store_true", help="execute and build everything anew")
    parser.add_argument("--workers", type=int, default=2, help="chapters executed side by side")
    options = parser.parse_args(arguments)
    if not build(options.workers, options.force):
        return 1
    if options.serve is not None:
        serve(options.serve)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
