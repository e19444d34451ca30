"""The wheel and the source archive hold what they should, and ask for NumPy only."""

import email
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from attncourse.grading.build import leaks
from attncourse.grading.exercise import load

ROOT = Path(__file__).resolve().parents[1]
CODE = {
    path.relative_to(ROOT).as_posix()
    for suffix in ("py", "js", "css", "json", "txt", "toml", "md", "ipynb", "safetensors")
    for path in (ROOT / "attncourse").rglob(f"*.{suffix}")
    if "__pycache__" not in path.parts
}
# What a learner's check needs, and not what grades it.
EXERCISES = {
    path.relative_to(ROOT).as_posix()
    for pattern in ("exercise.toml", "tests/public/*.py", "wrong/*.py")
    for path in ROOT.glob(f"exercises/*/{pattern}")
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build both archives once; return their paths."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def metadata(built):
    with zipfile.ZipFile(built[0]) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_string(wheel.read(name).decode())


def test_the_wheel_holds_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built[0]) as wheel:
        names = set(wheel.namelist())
    package = {name for name in names if ".dist-info/" not in name}
    assert package == CODE | {f"attncourse/{name}" for name in EXERCISES}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_figures_that_react_travel_with_the_package(built):
    with zipfile.ZipFile(built[0]) as wheel:
        assets = [name for name in wheel.namelist() if name.endswith((".js", ".css"))]
    assert {Path(name).suffix for name in assets} == {".js", ".css"}


def test_the_source_archive_builds_the_same_package(built):
    with tarfile.open(built[1]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {name for name in names if name.startswith("exercises/")} == EXERCISES
    assert names >= CODE | {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO"}
    for folder in ("chapters/", "book/", ".venv/", "_build/", ".github/"):
        assert not [name for name in names if name.startswith(folder)]


def test_no_archive_holds_a_solution_or_a_hidden_test(built):
    with zipfile.ZipFile(built[0]) as wheel, tarfile.open(built[1]) as archive:
        texts = {name: wheel.read(name) for name in wheel.namelist()}
        files = [member for member in archive.getmembers() if member.isfile()]
        texts.update({file.name: archive.extractfile(file).read() for file in files})
    specs = [load(path.parent) for path in sorted(ROOT.glob("exercises/*/source.ipynb"))]
    assert specs
    for spec in specs:
        for name, data in texts.items():
            assert leaks(spec, data.decode("utf-8", "replace"), whole=True) == [], name
        hidden = next(spec.path.glob("tests/hidden/*.py")).read_text(encoding="utf-8")
        assert leaks(spec, hidden, whole=True)  # the scan sees what it looks for


def test_a_check_works_from_the_wheel_alone(built, tmp_path):
    with zipfile.ZipFile(built[0]) as wheel:
        wheel.extractall(tmp_path)
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from attncourse.grading import Exercise\n"
        "def hard_lookup(query, keys, values):\n"
        "    return keys[(keys @ query).argmax()]\n"
        "print(Exercise('03').check('q1'))\n"
    )
    environment = {**os.environ, "ATTNCOURSE_PROGRESS": "off"}
    result = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={key: value for key, value in environment.items() if key != "PYTHONPATH"},
    )
    assert result.returncode == 0, result.stderr
    assert "“The key comes back, not its value”" in result.stdout


def test_an_exercise_is_started_from_the_wheel_alone(built, tmp_path):
    with zipfile.ZipFile(built[0]) as wheel:
        wheel.extractall(tmp_path)
    start = [sys.executable, "-c", "from attncourse.cli import main; raise SystemExit(main())"]
    for words in (["new", "21_mine"], ["lint", "21_mine"]):
        done = subprocess.run(
            [*start, "exercise", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "21_mine: no problems\n"


def test_numpy_is_the_only_dependency(metadata):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = metadata.get_all("Requires-Dist")
    core = [text for text in required if "extra ==" not in text]
    assert core == settings["dependencies"] == ["numpy>=1.26"]
    assert set(metadata.get_all("Provides-Extra")) == set(settings["optional-dependencies"])


def test_the_metadata_says_what_the_project_says(metadata):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert metadata["Name"] == "attncourse"
    assert metadata["Version"] == settings["version"]
    assert metadata["License-Expression"] == "MIT"
    assert {">=3.11", "<3.14"} == set(metadata["Requires-Python"].split(","))
    urls = dict(text.split(", ", 1) for text in metadata.get_all("Project-URL"))
    assert urls == settings["urls"]
    assert "# Self-attention" in metadata.get_payload()


def test_the_wheel_works_alone(built, tmp_path):
    """Unpacked away from the checkout, the package imports and computes."""
    with zipfile.ZipFile(built[0]) as wheel:
        wheel.extractall(tmp_path)
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "import attncourse, numpy as np\n"
        f"assert not attncourse.__file__.startswith({str(ROOT)!r}), attncourse.__file__\n"
        "q = np.eye(3)\n"
        "print(attncourse.attention(q, q, q, rung='matmul').shape)\n"
    )
    result = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "(3, 3)"
