"""The chapters' first cell adds attncourse to a Colab-like environment and replaces nothing.

The cell's own source runs in a fresh environment that holds the versions recorded in
``tests/data/colab_versions.txt``. Only the repository's address is replaced, by a wheel built from
this checkout, and the registry by a folder with stand-ins, so that no network is needed but for
NumPy. The wheel asks for newer packages than those present: an install that followed dependencies
would replace torch and numpy, and the last test shows that it does.
"""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import address  # noqa: E402

pytestmark = pytest.mark.slow

GREEDY = ["torch>=99", "tqdm>=99", "ipywidgets>=99", "anywidget>=99"]


def recorded():
    """Return the recorded versions, and which of them are to be installed for real."""
    lines = (ROOT / "tests" / "data" / "colab_versions.txt").read_text().splitlines()
    versions, real = {}, []
    for line in lines:
        text, _, comment = line.partition("#")
        if not text.strip():
            continue
        wanted = Requirement(text.strip())
        if wanted.marker is None or wanted.marker.evaluate():
            versions[wanted.name] = str(wanted.specifier).removeprefix("==")
            real += [f"{wanted.name}{wanted.specifier}"] * ("real" in comment)
    return versions, real


def wheel(folder, name, version, requires=(), files=None):
    """Write a small wheel; return its path."""
    info = f"{name}-{version}.dist-info"
    metadata = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    parts = {
        **(files or {f"{name}.py": ""}),
        f"{info}/METADATA": "\n".join(["Metadata-Version: 2.1", *metadata, ""]),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    parts[f"{info}/RECORD"] = "".join(f"{part},,\n" for part in [*parts, f"{info}/RECORD"])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for part, text in parts.items():
            archive.writestr(part, text)
    return path


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """Return a folder of wheels: this checkout's (greedy) and what a greedy install would take."""
    folder = tmp_path_factory.mktemp("registry")
    package = {
        str(path.relative_to(ROOT).as_posix()): path.read_text(encoding="utf-8")
        for path in (ROOT / "attncourse").rglob("*.py")
    }
    requires = ["numpy>=1.26", *GREEDY]
    for name in ("torch", "tqdm", "ipywidgets", "anywidget", "psygnal"):
        wheel(folder, name, "99.0")
    return folder, wheel(folder, "attncourse", "0.1.0", requires, package)


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """Return the Python of a fresh environment with the recorded versions in it."""
    folder = tmp_path_factory.mktemp("colab")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    versions, real = recorded()
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*install, *real], check=True, timeout=300)
    place = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.check_output([str(python), "-c", place], text=True).strip())
    for name, version in versions.items():
        if f"{name}=={version}" not in real:
            info = site / f"{name.replace('-', '_')}-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            )
            (info / "INSTALLER").write_text("pip\n")
            (info / "RECORD").write_text(f"{info.name}/METADATA,,\n{info.name}/RECORD,,\n")
    return python


def frozen(python):
    """Return what ``pip freeze`` lists: name -> version."""
    command = [str(python), "-m", "pip", "freeze"]
    lines = subprocess.check_output(command, text=True, timeout=60).splitlines()
    pairs = (re.match(r"([\w.-]+)(?:==| @ )(.+)", line) for line in lines)
    return {pair[1].lower().replace("_", "-"): pair[2] for pair in pairs if pair}


def run_cell(python, registry, source, folder):
    """Run the setup cell with the address replaced, away from the checkout."""
    links, package = registry
    repository = address.read_address(ROOT).repository
    assert f"git+{repository}" in source
    code = source.replace(f"git+{repository}", package.as_uri())
    code += "\nimport numpy as np\nprint(attncourse.__file__, np.__version__)\n"
    variables = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON"))},
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(links),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    result = subprocess.run(
        [str(python), "-c", code],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_cell_adds_what_is_missing_and_replaces_nothing(empty, registry, tmp_path):
    before = frozen(empty)
    versions, _ = recorded()
    assert {name.lower().replace("_", "-"): text for name, text in versions.items()} == before
    source = address.setup_cell(address.read_address(ROOT))

    printed = run_cell(empty, registry, source, tmp_path)
    after = frozen(empty)
    assert {name: after.get(name) for name in before} == before
    assert set(after) - set(before) == {"attncourse", "anywidget", "psygnal"}
    assert str(ROOT) not in printed
    assert printed.split()[-1] == versions["numpy"]

    # A second run, as in a notebook that is run again, changes nothing at all.
    run_cell(empty, registry, source, tmp_path)
    assert frozen(empty) == after

    # The same cell without --no-deps does replace them: this test can fail.
    uninstall = [str(empty), "-m", "pip", "uninstall", "--quiet", "-y", "attncourse", "anywidget"]
    subprocess.run(uninstall, check=True, timeout=60)
    careless = source.replace(', "--no-deps"', "")
    assert careless != source
    run_cell(empty, registry, careless, tmp_path)
    replaced = {name for name, version in before.items() if frozen(empty)[name] != version}
    assert {"torch", "tqdm", "ipywidgets"} <= replaced


def test_the_cell_is_what_the_chapters_hold():
    source = address.setup_cell(address.read_address(ROOT))
    lines = source.splitlines()
    assert max(map(len, lines)) <= 79
    assert len(lines) <= 15
    assert lines[-1] == "import attncourse"


def test_the_cell_runs_nothing_where_the_package_is(monkeypatch):
    """In Jupyter, nbval or VS Code, with attncourse installed, no program is started."""
    source = address.setup_cell(address.read_address(ROOT))

    def refuse(*_, **__):
        raise AssertionError("the cell started a program although attncourse is installed")

    monkeypatch.setattr(subprocess, "run", refuse)
    space = {}
    exec(compile(source, "setup", "exec"), space)
    assert space["attncourse"].__name__ == "attncourse"
