"""The public address is typed once; everything else is computed from it."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import address  # noqa: E402
from check_notebooks import text_of  # noqa: E402

CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
SERVICES = [
    r"colab\.research\.google\.com/github/[\w-]",
    r"mybinder\.org/v2/gh/[\w-]",
    r"github\.io/attncourse",
    r"github\.com[/:][\w-]+/attncourse",
]


def project_files():
    """Return the text files that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, names.split("\0")):
        path = ROOT / name
        if path.is_file() and "vendor" not in path.parts:
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def typed_by_hand(path, text):
    """Return a file's text without what the tool writes and without the setting itself."""
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        return "\n".join(text_of(c["source"]) for c in cells if c.get("id") != address.SETUP)
    text = address.REGION.sub(lambda match: match["open"] + match["close"], text)
    return (
        re.sub(r'(?m)^repository = "[^"]+"$', "", text) if path.name == "pyproject.toml" else text
    )


@pytest.fixture
def copy(tmp_path):
    """Return a copy of the files that hold the address."""
    for name in ("README.md", "CONTRIBUTING.md", "CITATION.cff", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "chapters", tmp_path / "chapters")
    return tmp_path


def move_to(folder, repository):
    path = folder / "pyproject.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r'(?m)^repository = ".*"$', f'repository = "{repository}"', text))


def test_the_address_is_typed_nowhere_else():
    slug = address.read_address(ROOT).slug
    patterns = [re.escape(slug), *SERVICES]
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path, text in project_files()
        if path != Path(__file__)
        for pattern in patterns
        for match in re.finditer(pattern, typed_by_hand(path, text), flags=re.IGNORECASE)
    ]
    assert not found, found


def test_the_search_sees_an_address_that_is_typed(tmp_path):
    text = "See https://github.com/somebody/attncourse for more."
    assert any(re.search(pattern, typed_by_hand(tmp_path / "a.md", text)) for pattern in SERVICES)


def test_every_copy_is_up_to_date(capsys):
    assert address.main(["--check"]) == 0, capsys.readouterr().out


def test_a_stale_copy_is_found(copy, capsys):
    path = copy / "README.md"
    path.write_text(path.read_text(encoding="utf-8").replace("badge.svg", "other.svg"))
    assert address.main(["--check"], copy) == 1
    assert "README.md: stale" in capsys.readouterr().out


def test_moving_the_project_takes_one_line(copy):
    old = address.read_address(ROOT)
    move_to(copy, "https://github.com/new-home/renamed")
    assert address.main(["--check"], copy) == 1
    assert address.main(["--write"], copy) == 0
    assert address.main(["--check"], copy) == 0

    files = [path for path in copy.rglob("*") if path.is_file()]
    texts = {path.name: path.read_text(encoding="utf-8") for path in files}
    assert not [name for name, text in texts.items() if old.slug in text or old.pages in text]
    assert "git clone https://github.com/new-home/renamed\ncd renamed\n" in texts["README.md"]
    assert "https://new-home.github.io/renamed/" in texts["README.md"]
    assert "url: https://new-home.github.io/renamed/" in texts["CITATION.cff"]
    urls = tomllib.loads(texts["pyproject.toml"])["project"]["urls"]
    assert urls["Repository"] == "https://github.com/new-home/renamed"
    for path in CHAPTERS:
        assert "git+https://github.com/new-home/renamed" in texts[path.name]


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_stamping_changes_the_setup_cell_only(path, copy):
    move_to(copy, "https://github.com/new-home/renamed")
    address.main(["--write"], copy)
    before = json.loads(path.read_text(encoding="utf-8"))
    after = json.loads((copy / "chapters" / path.name).read_text(encoding="utf-8"))
    changed = [
        old["id"] for old, new in zip(before["cells"], after["cells"], strict=True) if old != new
    ]
    assert changed == [address.SETUP]
    assert {**before, "cells": []} == {**after, "cells": []}


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_setup_cell_is_the_first_code_cell(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    first = next(cell for cell in cells if cell["cell_type"] == "code")
    assert first["id"] == address.SETUP
    assert {"hide-input", "attncourse-setup"} <= set(first["metadata"]["tags"])
    compile(text_of(first["source"]), path.name, "exec")


def test_an_unknown_region_is_refused():
    text = "<!-- address: nonsense -->\n<!-- address: end -->"
    with pytest.raises(KeyError, match="nonsense"):
        address.stamp_text(text, {"badges": ""})


def test_a_chapter_without_a_setup_cell_is_refused():
    with pytest.raises(ValueError, match="one code cell with the id 'setup', not 0"):
        address.stamp_notebook('{"cells": []}', "import attncourse")
