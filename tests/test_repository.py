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
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
COMMANDS = set(make.parser()._subparsers._group_actions[0].choices)


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


def test_the_makefile_is_a_shell_over_make_py():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.search(r"^\.PHONY: (.*)$", text, flags=re.MULTILINE)[1].split())
    assert targets == COMMANDS
    recipes = re.findall(r"^\t(.*)$", text, flags=re.MULTILINE)
    assert recipes
    assert all(line.startswith("@$(PYTHON) make.py ") for line in recipes)


@pytest.mark.parametrize("path", ["README.md", "CONTRIBUTING.md", ".ci/run", *WORKFLOWS], ids=str)
def test_named_commands_exist(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    shell = "\n".join(re.findall(r"`[^`]+`|```.*?```", text, flags=re.DOTALL))
    text = shell if str(path).endswith(".md") else text
    named = re.findall(r"(?:\bmake(?= [a-z])|make\.py) ([a-z]+)\b", text)
    assert set(named) <= COMMANDS
    scripts = re.findall(r"\b(?:tools|benchmarks)/\w+\.py", text)
    assert not [name for name in scripts if not (ROOT / name).exists()]


# ---- workflows


def load(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    workflow["on"] = workflow.pop(True)  # YAML 1.1 reads the key "on" as true
    return workflow


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_asks_for_little_and_pins_its_actions(path):
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "workflow_dispatch" in workflow["on"]
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 120
        assert set(job.get("permissions", {})) <= {"pages", "id-token"}
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step)
        assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/none@v0"))


# ---- pre-commit


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


# ---- versions, links


def test_one_version_everywhere():
    tree = ast.parse((ROOT / "attncourse" / "__init__.py").read_text(encoding="utf-8"))
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    named = {node.targets[0].id: node.value for node in assigned}
    version = project()["version"]
    assert named["__version__"].value == version
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_readme_links_to_files_that_exist():
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        links = re.findall(r"\]\(([^):]+)\)", text)
        assert not [link for link in links if not (ROOT / link).exists()]
