"""Draw who may import whom in CONTRIBUTING.md, from the contract in pyproject.toml.

``python tools/imports_picture.py`` rewrites the picture; tests/test_imports.py compares it.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from pathlib import Path

from processes import lossless

ROOT = Path(__file__).resolve().parents[1]
OPEN, CLOSE = "<!-- imports: written by tools/imports_picture.py -->", "<!-- imports: end -->"
WIDTH = 60


def contracts(root=ROOT):
    """Return the import contracts of pyproject.toml by their type."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return {each["type"]: each for each in settings["tool"]["importlinter"]["contracts"]}


def layers(root=ROOT):
    """Return the layers, top first, each a list of module names."""
    rows = contracts(root)["layers"]["layers"]
    return [[name.strip(" ()") for name in re.split(r"[|:]", row)] for row in rows]


def rungs(root=ROOT):
    """Return the names of the rungs that must not import each other."""
    return [name.rsplit(".", 1)[1] for name in contracts(root)["independence"]["modules"]]


def picture(root=ROOT):
    """Return the picture: a stack of boxes, a module may import only from lower ones."""
    rule = "+" + "-" * (WIDTH + 2) + "+"
    lines = [rule]
    for names in layers(root):
        text = "   ".join(names)
        text = text.replace("rungs", f"rungs ({', '.join(rungs(root))})")
        lines += [f"| {part:<{WIDTH}} |" for part in textwrap.wrap(text, WIDTH)]
        lines.append(rule)
    return "\n".join(["```text", *lines, "```"])


def filled(text, root=ROOT):
    """Return CONTRIBUTING.md's text with the picture in its place."""
    if text.count(OPEN) != 1 or text.count(CLOSE) != 1:
        raise ValueError(f"CONTRIBUTING.md needs one line {OPEN!r} and one {CLOSE!r}")
    before, rest = text.split(OPEN)
    return f"{before}{OPEN}\n{picture(root)}\n{CLOSE}{rest.split(CLOSE)[1]}"


def main():
    """Rewrite the picture."""
    lossless()
    path = ROOT / "CONTRIBUTING.md"
    text = path.read_text(encoding="utf-8")
    path.write_text(filled(text), encoding="utf-8", newline="\n")
    print(picture())


if __name__ == "__main__":
    main()
