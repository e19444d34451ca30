"""Write every copy of the public address from the one setting in pyproject.toml.

``[tool.attncourse] repository`` says where the project lives. From it come the badges and links
of README.md, CITATION.cff, the package's metadata and the first code cell of every chapter and
exercise, which installs attncourse where it is missing. The book's own links are computed when it
is built.

``python tools/address.py --write`` stamps the copies, ``--check`` says which are out of date.
A region in a text file starts with a line that holds ``address: NAME`` and ends with one that
holds ``address: end``; what stands between is this tool's.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
sys.path.insert(0, str(ROOT / "tools"))

from check_notebooks import dump, text_of  # noqa: E402
from course_address import read_address  # noqa: E402
from processes import lossless  # noqa: E402

REGION = re.compile(
    r"(?P<open>^[^\n]*address: (?!end)(?P<name>[a-z-]+)[^\n]*\n)(?P<body>.*?)"
    r"(?P<close>^[^\n]*address: end)",
    flags=re.MULTILINE | re.DOTALL,
)
SETUP = "setup"
SETUP_CELL = """\
# Adds attncourse where it is missing (Colab); replaces nothing.
# This cell is filled in by tools/address.py.
import importlib
import subprocess
import sys
from importlib.util import find_spec

if find_spec("attncourse") is None:
    home = "git+{repository}"
    lacking = [n for n in ("anywidget", "psygnal") if find_spec(n) is None]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, home, *lacking], check=True)
    importlib.invalidate_caches()
import attncourse
"""


def setup_cell(address):
    """Return the source of every chapter's first code cell."""
    return SETUP_CELL.format(repository=address.repository).rstrip("\n")


def title_of(path):
    """Return the first heading of a notebook, without its number."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    lines = "\n".join(text_of(cell["source"]) for cell in notebook["cells"]).splitlines()
    heading = next(line for line in lines if line.startswith("# "))
    return re.sub(r"^# (\d+\s+)?", "", heading)


def chapter_rows(root, address):
    """Return the README's table: each chapter to read, and to run in Colab or Binder."""
    yield "| chapter | read | run |"
    yield "|---|---|---|"
    for path in sorted(Path(root, "chapters").glob("*.ipynb")):
        file = f"chapters/{path.name}"
        read = f"[page]({address.pages}chapters/{path.stem}.html)"
        run = f"[Colab]({address.colab(file)}) · [Binder]({address.binder(file)})"
        yield f"| {path.stem[:2]} {title_of(path)} | {read} | {run} |"


def badges(address):
    """Return the README's badges."""
    for name, label in (("tests", "tests"), ("book", "book")):
        runs = f"{address.repository}/actions/workflows/{name}.yml"
        yield f"[![{label}]({runs}/badge.svg)]({runs})"
    yield f"[![Binder](https://mybinder.org/badge_logo.svg)]({address.binder('chapters')})"


def regions(root):
    """Return what each named region must hold."""
    address = read_address(root)
    directory = address.repository.rsplit("/", 1)[1]
    bodies = {
        "badges": badges(address),
        "chapters": chapter_rows(root, address),
        "online": [f"The rendered book is at <{address.pages}>."],
        "clone": ["```console", f"git clone {address.repository}", f"cd {directory}", "```"],
        "citation": [f"repository-code: {address.repository}", f"url: {address.pages}"],
        "urls": [
            f'Repository = "{address.repository}"',
            f'Documentation = "{address.pages}"',
            f'Changelog = "{address.blob("CHANGELOG.md")}"',
        ],
    }
    return {name: "\n".join(lines) + "\n" for name, lines in bodies.items()}


def stamp_text(text, bodies):
    """Return a text with its regions filled; an unknown region is an error."""

    def fill(match):
        if match["name"] not in bodies:
            raise KeyError(f"no such region: {match['name']}; known: {', '.join(bodies)}")
        return match["open"] + bodies[match["name"]] + match["close"]

    return REGION.sub(fill, text)


def stamp_notebook(text, source):
    """Return a notebook's text with its setup cell filled; the rest stays byte for byte."""
    notebook = json.loads(text)
    cells = [cell for cell in notebook["cells"] if cell.get("id") == SETUP]
    if len(cells) != 1:
        raise ValueError(f"a chapter needs one code cell with the id {SETUP!r}, not {len(cells)}")
    if text_of(cells[0]["source"]) == source:
        return text
    cells[0]["source"] = source.splitlines(keepends=True)
    return dump(notebook)


def notebooks(root):
    """Return every notebook that a reader may open in Colab."""
    return sorted([*root.glob("chapters/*.ipynb"), *root.glob("exercises/*/*.ipynb")])


def stamped(root):
    """Return ``{path: text as it must be}`` for every file that holds a copy."""
    root = Path(root)
    bodies, source = regions(root), setup_cell(read_address(root))
    texts = {}
    for name in ("README.md", "CONTRIBUTING.md", "CITATION.cff", "pyproject.toml"):
        texts[root / name] = stamp_text((root / name).read_text(encoding="utf-8"), bodies)
    for path in notebooks(root):
        texts[path] = stamp_notebook(path.read_text(encoding="utf-8"), source)
    tomllib.loads(texts[root / "pyproject.toml"])
    return texts


def main(arguments, root=ROOT):
    """Stamp or check; return the exit code."""
    lossless()
    if arguments not in (["--write"], ["--check"]):
        print("usage: python tools/address.py --write | --check")
        return 2
    stale = {
        path: text
        for path, text in stamped(root).items()
        if path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        if arguments == ["--write"]:
            path.write_text(text, encoding="utf-8", newline="\n")
        print(f"{path.relative_to(root)}: {'stamped' if arguments == ['--write'] else 'stale'}")
    if stale and arguments == ["--check"]:
        print("run: python tools/address.py --write")
        return 1
    print(f"the address is {read_address(root).repository}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
