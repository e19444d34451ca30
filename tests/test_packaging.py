"""The wheel and the source archive hold what they should, and ask for NumPy only."""

import email
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CODE = {
    path.relative_to(ROOT).as_posix()
    for suffix in ("py", "js", "css", "json", "txt")
    for path in (ROOT / "attncourse").rglob(f"*.{suffix}")
    if "__pycache__" not in path.parts
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
    assert package == CODE
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_figures_that_react_travel_with_the_package(built):
    with zipfile.ZipFile(built[0]) as wheel:
        assets = [name for name in wheel.namelist() if name.endswith((".js", ".css"))]
    assert {Path(name).suffix for name in assets} == {".js", ".css"}


def test_the_source_archive_builds_the_same_package(built):
    with tarfile.open(built[1]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert names >= CODE | {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO"}
    for folder in ("chapters/", "book/", ".venv/", "_build/", ".github/"):
        assert not [name for name in names if name.startswith(folder)]


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
