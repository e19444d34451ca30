"""The files around the package agree with each other: pins, commands, workflows, licences."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT))

import lock  # noqa: E402

import make  # noqa: E402

REQUIREMENTS = (ROOT / "requirements.txt").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
COMMANDS = {"env", "weights", "book", "test", "clean", "lock", "help"}


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements():
    lines = [line.partition("#")[0].strip() for line in REQUIREMENTS.splitlines()]
    return [Requirement(line) for line in lines if line]


# ---- requirements.txt


def test_torch_is_pinned_on_the_first_line():
    assert REQUIREMENTS.splitlines()[0] == "torch==2.13.0"
    assert [r.name for r in requirements()].count("torch") == 1


def test_every_requirement_is_pinned_exactly_and_once():
    loose = [str(r) for r in requirements() if not re.fullmatch(r"==[\w.]+", str(r.specifier))]
    assert not loose
    names = [lock.canonical(r.name) for r in requirements()]
    assert len(names) == len(set(names))
    assert not [name for name in names if name.startswith(("nvidia", "cuda"))]


def test_the_lower_half_is_what_the_environment_holds():
    """A pin that differs from what is installed was typed, not computed."""
    from importlib.metadata import PackageNotFoundError, version

    for r in requirements():
        if r.marker is None or r.marker.evaluate():
            try:
                installed = version(r.name)
            except PackageNotFoundError:
                pytest.fail(f"{r} is not installed: make env")
            assert r.specifier.contains(installed), f"{r}: {installed} is installed"


def test_lock_computes_only_what_is_not_asked_for():
    frozen = "torch==2.13.0+cpu\nnvidia-x==1\npip==23\nFoo_Bar==1.5+local\nasked==2\n-e /tmp/a\n"
    assert lock.computed(frozen, {"torch": "2.13.0", "asked": "2"}) == ["foo-bar==1.5"]
    text = f"asked==2 ; python_version < '4'\n\n{lock.LINE}\nold==1\n"
    assert lock.by_hand(text) == "asked==2 ; python_version < '4'\n"
    assert lock.pins(text) == {"asked": "2", "old": "1"}


def test_extras_are_satisfied_by_the_pins():
    pins = lock.pins(REQUIREMENTS)
    for extra in [project()["dependencies"], *project()["optional-dependencies"].values()]:
        for r in map(Requirement, extra):
            assert r.name == "attncourse" or r.specifier.contains(pins[r.name]), str(r)


# ---- commands


def test_make_py_has_the_commands_that_everything_names():
    actions = make.parser()._subparsers._group_actions
    assert set(actions[0].choices) == COMMANDS


def test_the_makefile_is_a_shell_over_make_py():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.search(r"^\.PHONY: (.*)$", text, flags=re.MULTILINE)[1].split())
    assert targets == COMMANDS
    assert re.findall(r"^\t(.*)$", text, flags=re.MULTILINE) == ["@$(PYTHON) make.py $@"]


@pytest.mark.parametrize("path", ["README.md", "CONTRIBUTING.md", ".ci/run", *WORKFLOWS], ids=str)
def test_named_commands_exist(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    shell = "\n".join(re.findall(r"`[^`]+`|```.*?```", text, flags=re.DOTALL))
    text = shell if str(path).endswith(".md") else text
    named = re.findall(r"(?:\bmake(?= [a-z])|make\.py) ([a-z]+)\b", text)
    assert set(named) <= COMMANDS
    scripts = re.findall(r"\b(?:tools|benchmarks)/\w+\.py", text)
    assert not [name for name in scripts if not (ROOT / name).exists()]


def test_ci_runs_the_test_command_of_the_readme():
    assert "make test" in README
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").rstrip().splitlines()
    assert lines[-1] == "exec make test"
    assert any(line.startswith("export CI=true") for line in lines)


def test_the_readme_names_the_pinned_torch_and_the_supported_pythons():
    assert re.findall(r"torch==[\d.]+", README) == ["torch==2.13.0"]
    assert "Python 3.11, 3.12 or 3.13" in README
    assert project()["requires-python"] == ">=3.11,<3.14"
    import environment

    assert (environment.OLDEST, environment.NEWEST) == ((3, 11), (3, 13))


def test_the_readme_says_how_long_the_commands_take():
    assert "MEASURE" not in README, "fill the table of minutes and the line that says where"
    assert re.search(r"^Measured on .*\d{4}", README, flags=re.MULTILINE)


# ---- workflows


def load(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    workflow["on"] = workflow.pop(True)  # YAML 1.1 reads the key "on" as true
    return workflow


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_the_workflows_are_the_two_that_the_badges_show():
    assert [path.name for path in WORKFLOWS] == ["book.yml", "tests.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_asks_for_little_and_pins_its_actions(path):
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert {"push", "workflow_dispatch"} <= set(workflow["on"])
    assert "group" in workflow["concurrency"]
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 60
        assert set(job.get("permissions", {})) <= {"pages", "id-token"}
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step)
        assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/none@v0"))


def test_the_workflows_cover_the_systems_and_deploy_the_pages():
    tests, book = load(WORKFLOWS[1]), load(WORKFLOWS[0])
    assert tests["jobs"]["everything"]["strategy"]["matrix"]["python"] == ["3.11", "3.13"]
    systems = tests["jobs"]["package"]["strategy"]["matrix"]["os"]
    assert systems == ["macos-latest", "windows-latest"]
    assert [s["run"] for s in steps(tests) if "bash .ci/run" in s.get("run", "")]
    assert book["jobs"]["deploy"]["permissions"] == {"pages": "write", "id-token": "write"}
    upload = next(s for s in steps(book) if "upload-pages" in s.get("uses", ""))
    assert ROOT / upload["with"]["path"] == make.PAGES


# ---- pre-commit, Binder


def test_pre_commit_runs_the_pinned_ruff_and_local_hooks_only():
    settings = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["repo"] for repo in settings["repos"]] == ["local"]
    hooks = {hook["id"]: hook for hook in settings["repos"][0]["hooks"]}
    ruff = f"ruff=={lock.pins(REQUIREMENTS)['ruff']}"
    assert hooks["ruff-check"]["additional_dependencies"] == [ruff]
    assert hooks["ruff-format"]["additional_dependencies"] == [ruff]
    assert re.search(hooks["no-stored-outputs"]["files"], "chapters/01_x.ipynb")
    for hook in hooks.values():
        assert all((ROOT / name).exists() for name in re.findall(r"tools/\w+\.py", hook["entry"]))


def test_binder_installs_the_course():
    folder = ROOT / ".binder"
    assert "-r ../requirements.txt" in (folder / "requirements.txt").read_text().splitlines()
    assert "-e ." in (folder / "postBuild").read_text()
    python = (folder / "runtime.txt").read_text().strip().removeprefix("python-")
    assert make.check_python(tuple(map(int, python.split("."))), "binder") is None


# ---- versions, licences


def test_one_version_everywhere():
    tree = ast.parse((ROOT / "attncourse" / "__init__.py").read_text(encoding="utf-8"))
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    named = {node.targets[0].id: node.value for node in assigned}
    version = project()["version"]
    assert named["__version__"].value == version
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_licences_are_whole():
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")
    text = (ROOT / "LICENSE-TEXT").read_text(encoding="utf-8")
    assert text.startswith("Attribution 4.0 International")
    for number in range(1, 9):
        assert f"Section {number} --" in text


def test_the_readme_links_to_files_that_exist():
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        links = re.findall(r"\]\(([^):]+)\)", text)
        assert not [link for link in links if not (ROOT / link).exists()]
