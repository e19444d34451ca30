"""Notebooks as a learner runs them, in a real kernel, under nbval.

In a student notebook the cells that fail are exactly the check cells; in a solution none fails.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from attncourse.grading.build import build
from attncourse.grading.exercise import load
from attncourse.grading.format import marks, read_notebook

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted(file.parent for file in ROOT.glob("exercises/*/source.ipynb"))
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """Run all notebooks under nbval; return the numbers of the code cells that fail, by file."""
    place = tmp_path_factory.mktemp("notebooks")
    for folder in FOLDERS:
        build(load(folder), place, beside=False)
    command = [sys.executable, "-m", "pytest", "-q", "--nbval-lax", "-rf", "--tb=no", "-c"]
    command += [os.devnull, f"--rootdir={place}", "-p", "no:cacheprovider", str(place)]
    environment = {
        **os.environ,
        "ATTNCOURSE_CHECK_RAISES": "1",
        "ATTNCOURSE_PROGRESS": "off",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        command, cwd=place, capture_output=True, text=True, timeout=600, env=environment
    )
    assert "passed" in done.stdout, done.stdout + done.stderr
    found = {file.name: set() for file in place.glob("*.ipynb")}
    for name, number in re.findall(r"^FAILED (\S+\.ipynb)::Cell (\d+)", done.stdout, re.MULTILINE):
        found[name].add(int(number))
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_failing_cells_are_the_check_cells(folder, failing):
    cells = read_notebook(folder / "source.ipynb")["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    checks = {number for number, cell in enumerate(code) if marks(cell).get("grade")}
    assert failing[f"{folder.name}.ipynb"] == checks
    assert len(checks) == len(load(folder).questions)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_cell_of_a_solution_fails(folder, failing):
    assert failing[f"{folder.name}_solution.ipynb"] == set()
