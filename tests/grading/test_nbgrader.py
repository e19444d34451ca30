"""Our release of a source notebook is nbgrader's, cell by cell.

nbgrader brings 336 MB of packages with it, so it lives in an environment of its own, which this
test makes once under `_build` (the variable ATTNCOURSE_NBGRADER names another one's python).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attncourse.grading.format import read_notebook, student_notebook

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(ROOT.glob("exercises/*/source.ipynb"))
VERSION = "0.9.6"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.nbgrader,
    pytest.mark.skipif(sys.platform != "linux", reason="one system is enough for the comparison"),
]


@pytest.fixture(scope="module")
def nbgrader():
    """Return the python of an environment that holds nbgrader."""
    if given := os.environ.get("ATTNCOURSE_NBGRADER"):
        return Path(given)
    place = ROOT / "_build" / f"nbgrader-{VERSION}"
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (place / "complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, timeout=120)
        pip = [str(python), "-m", "pip", "install", "--quiet", f"nbgrader=={VERSION}"]
        subprocess.run(pip, check=True, timeout=900)
        (place / "complete").touch()
    return python


RELEASE = """
import sys
from nbgrader.apps import NbGraderAPI
from traitlets.config import Config
config = Config()
config.CourseDirectory.root = sys.argv[1]
api = NbGraderAPI(config=config)
for name in sys.argv[2:]:
    done = api.generate_assignment(name, force=True, create=True)
    assert done["success"], done
"""


@pytest.fixture(scope="module")
def released(nbgrader, tmp_path_factory):
    """Let nbgrader release every exercise; return the folder."""
    course = tmp_path_factory.mktemp("course")
    for source in SOURCES:
        folder = course / "source" / source.parent.name
        folder.mkdir(parents=True)
        shutil.copy(source, folder / "notebook.ipynb")
    names = [source.parent.name for source in SOURCES]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["PATH"] = f"{nbgrader.parent}{os.pathsep}{environment['PATH']}"
    command = [str(nbgrader), "-W", "ignore", "-c", RELEASE, str(course), *names]
    done = subprocess.run(
        command, cwd=course, capture_output=True, text=True, timeout=300, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return course / "release"


def parts(cell):
    """Return what must be equal."""
    metadata = {key: cell["metadata"].get(key) for key in ("deletable", "editable", "tags")}
    kind = (cell["cell_type"], cell["source"], cell.get("outputs"), cell.get("execution_count"))
    return *kind, metadata, cell["metadata"].get("nbgrader")


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.parent.name)
def test_the_release_is_nbgraders_cell_by_cell(source, released):
    theirs = read_notebook(released / source.parent.name / "notebook.ipynb")
    ours = student_notebook(read_notebook(source))
    assert len(ours["cells"]) == len(theirs["cells"])
    for our, their in zip(ours["cells"], theirs["cells"], strict=True):
        assert parts(our) == parts(their)
