"""A tiny book with the real frame: what the tests of the build execute and look at."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
from built_book import ROOT

FRAME = ("_config.yml", "pyproject.toml", "CHANGELOG.md", "make.py", "Makefile", "tools")
BOOK = ("_ext", "_static", "_templates", "references.bib")
SETUP = "import attncourse"


def write_chapter(root, name, cells):
    """Write a chapter: a title, a setup cell, and code cells ``{id: source or (source, tags)}``."""
    parts = [nbformat.v4.new_markdown_cell(f"# {name[:2]} Does {name[3:]} hold?", id="title")]
    for ident, given in {"setup": SETUP, **cells}.items():
        source, tags = (given, []) if isinstance(given, str) else given
        parts.append(nbformat.v4.new_code_cell(source, id=ident, metadata={"tags": tags}))
    notebook = nbformat.v4.new_notebook(cells=parts)
    nbformat.write(notebook, root / "chapters" / f"{name}.ipynb")


def make_tiny_book(root, chapters, intro="A book of a few cells.\n"):
    """Copy the frame and write chapters ``{name: {cell id: source}}``."""
    for name in FRAME:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, root / name)
    for name in BOOK:
        copy = shutil.copytree if (ROOT / "book" / name).is_dir() else shutil.copy
        (root / "book").mkdir(exist_ok=True)
        copy(ROOT / "book" / name, root / "book" / name)
    (root / "book" / "intro.md").write_text(f"# Tiny\n\n{intro}", encoding="utf-8")
    for folder in ("attncourse", "chapters", "exercises"):
        (root / folder).mkdir()
    (root / "attncourse" / "__init__.py").write_text("", encoding="utf-8")
    entries = "".join(f"      - file: chapters/{name}\n" for name in chapters)
    toc = f"format: jb-book\nroot: book/intro\nparts:\n  - caption: x\n    chapters:\n{entries}"
    (root / "_toc.yml").write_text(toc, encoding="utf-8")
    for name, cells in chapters.items():
        write_chapter(root, name, cells)
    return root


def build(root, *arguments, **variables):
    """Build a tiny book; return the exit status and the lines."""
    done = subprocess.run(
        [sys.executable, "tools/build_book.py", *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": "", "PYTHONIOENCODING": "utf-8", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
    )
    return done.returncode, done.stdout.rstrip().splitlines()


def page(root, name):
    """Return a built page's text."""
    return Path(root, "_build", "html", f"{name}.html").read_text(encoding="utf-8")
