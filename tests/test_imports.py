"""Who may import whom: the contract holds, it can fail, and CONTRIBUTING.md draws it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import imports_picture  # noqa: E402

LINT = "from importlinter.cli import lint_imports_command as run; run(['--no-logo', '--no-cache'])"


def lint(folder):
    """Run the contracts of a folder's pyproject.toml on the package beside it."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-c", LINT],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


@pytest.fixture
def copy(tmp_path):
    """Return a copy of the package and its contract that a test may break."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "attncourse", tmp_path / "attncourse", ignore=ignore)
    return tmp_path


def test_the_contracts_hold():
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout
    assert "3 kept, 0 broken" in result.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("masks.py", "from attncourse import models", "Imports point downwards only"),
        ("reference.py", "from attncourse.rungs import matmul", "Imports point downwards only"),
        ("rungs/batched.py", "from attncourse.rungs import loops", "Rungs never import each other"),
        ("masks.py", "import torch", "NumPy is enough"),
    ],
    ids=["upwards", "oracle-uses-a-rung", "rung-uses-a-rung", "torch-at-the-bottom"],
)
def test_a_forbidden_import_breaks_its_contract(copy, module, line, contract):
    path = copy / "attncourse" / module
    path.write_text(path.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")
    result = lint(copy)
    assert result.returncode == 1, result.stdout
    broken = [row for row in result.stdout.splitlines() if row.rstrip().endswith("BROKEN")]
    assert any(contract in row for row in broken), result.stdout


def test_a_new_module_must_be_given_its_place(copy):
    (copy / "attncourse" / "newcomer.py").write_text('"""New."""\n')
    result = lint(copy)
    assert result.returncode == 1
    assert "newcomer" in result.stdout


def test_every_rung_is_in_the_contract():
    rungs = pytest.importorskip("attncourse.rungs")
    assert imports_picture.rungs() == [rung.name for rung in rungs.LADDER]


def test_the_picture_in_contributing_is_the_contract():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert imports_picture.filled(text) == text, "run: python tools/imports_picture.py"
    for names in imports_picture.layers():
        assert all(name in text for name in names)


def test_importing_the_package_loads_numpy_and_nothing_heavier():
    heavy = ["torch", "matplotlib", "scipy", "sklearn", "triton", "anywidget", "IPython", "tqdm"]
    code = (
        "import sys, attncourse\n"
        f"loaded = [name for name in {heavy!r} if name in sys.modules]\n"
        "assert not loaded, loaded\n"
        "assert {name for name in sys.modules if name.startswith('attncourse.')} == set()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
