"""Find what is wrong with an exercise before a learner does.

The one idea: first what can be read (cells, marks, tests, points), then what can be run: the proof
that its tests grade.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from attncourse.grading.exercise import ExerciseError, Question, Spec
from attncourse.grading.format import answer_cells, marks, read_notebook, solution_bodies
from attncourse.grading.mistakes import read_answers
from attncourse.grading.points import exact
from attncourse.grading.running import without_magics

__all__ = ["lint"]

MIN_WRONG, MIN_RIGHT = 2, 2  # for each question; for the exercise
ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
NEEDED = {"grade", "grade_id", "locked", "schema_version", "solution"}
FORBIDDEN = {"pickle", "subprocess", "socket", "os", "sys", "attncourse.grading.remote"}


def lint(spec: Spec, *, run: bool = True) -> list[str]:
    """Return everything that is wrong with an exercise.

    Parameters
    ----------
    spec : Spec
        The exercise.
    run : bool
        Also grade the solution, the stub and the zoo: takes seconds.

    Returns
    -------
    list of str
        Empty if nothing is wrong.
    """
    problems = [] if spec.id == spec.path.name else [f"the folder must be named {spec.id}"]
    try:
        problems += [*_cells(spec), *_tests(spec), *_zoo(spec), *_solution_text(spec)]
        if run and not problems:
            from attncourse.grading.proof import prove

            problems += prove(spec)
    except (ExerciseError, OSError, KeyError, SyntaxError) as error:
        problems.append(f"{type(error).__name__}: {error}")
    return problems


def _cells(spec: Spec) -> Iterator[str]:
    """Check the source notebook."""
    notebook = read_notebook(spec.path / "source.ipynb")
    seen: set[str] = set()
    for number, cell in enumerate(notebook["cells"], start=1):
        name = cell.get("id", "")
        if not ID.fullmatch(name) or name in seen:
            yield f"cell {number}: its id must be words joined by hyphens, used once, got {name!r}"
        seen.add(name)
        yield from (f"cell {number} ({name}): {text}" for text in _cell(cell))
    answers, bodies = answer_cells(notebook), solution_bodies(notebook)
    for question in spec.questions:
        if question.id not in answers:
            yield f"no answer cell has the grade_id {question.id}"
        elif not bodies[question.id].strip():
            yield f"the answer of {question.id} has nothing between ### BEGIN and ### END SOLUTION"
        yield from _check_cell(notebook, question)
    for name in set(answers) - {question.id for question in spec.questions}:
        yield f"the answer cell {name} is no question of exercise.toml"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    """Check one cell."""
    if cell.get("outputs") or cell.get("execution_count"):
        yield "stores an output or an execution count"
    own = marks(cell)
    if own and (lacking := NEEDED - set(own)):
        yield f"nbgrader metadata lacks {', '.join(sorted(lacking))}"
    if own and own.get("schema_version") != 3:
        yield f"nbgrader schema_version must be 3, got {own.get('schema_version')}"
    if cell["cell_type"] == "code" and cell.get("id") != "setup":
        lines = cell["source"].split("\n")
        for line, plain in zip(lines, without_magics(cell["source"]).split("\n"), strict=True):
            if line != plain:
                yield f"holds {line.strip()!r}: magics do not run everywhere"


def _check_cell(notebook: dict[str, Any], question: Question) -> Iterator[str]:
    """Check that a question has one locked check cell with its points."""
    call = re.compile(rf"\.check\(\s*[\"']{question.id}[\"']\s*\)")
    found = [cell for cell in notebook["cells"] if call.search(cell["source"])]
    if len(found) != 1:
        yield f"{question.id} needs one cell that calls check({question.id!r}), has {len(found)}"
        return
    own = marks(found[0])
    if not (own.get("grade") and own.get("locked") and not own.get("solution")):
        yield f"the check cell of {question.id} needs grade and locked true, solution false"
    elif exact(own.get("points", 0)) != exact(question.points):
        said = f"{own.get('points')} points, exercise.toml {question.points}"
        yield f"{question.id}: its check cell says {said}"


def _marker(node: ast.FunctionDef, name: str) -> list[Any] | None:
    """Return the arguments of a pytest marker of a test."""
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == f"pytest.mark.{name}":
            return [ast.literal_eval(arg) for arg in mark.args]
    return None


def _test_functions(spec: Spec, folder: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the tests of a folder."""
    for file in sorted((spec.path / "tests" / folder).glob("test_*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"{folder}/{file.name}::{node.name}", node


def _tests(spec: Spec) -> Iterator[str]:
    """Check markers and points of all tests."""
    offered = {question.id: Fraction(0) for question in spec.questions}
    has: set[tuple[str, str]] = set()
    for folder in ("public", "hidden"):
        for name, node in _test_functions(spec, folder):
            owner, points = _marker(node, "question"), _marker(node, "points")
            if not owner or owner[0] not in offered or not points:
                yield f"{name} needs pytest.mark.question (one of exercise.toml's) and points"
                continue
            offered[owner[0]] += exact(points[0]) * _cases(node)
            has.add((folder, owner[0]))
            if folder == "public" and len(_marker(node, "hint") or []) < 2:
                yield f"{name} needs pytest.mark.hint with at least two tiers"
    for question in spec.questions:
        if offered[question.id] != exact(question.points):
            total = float(offered[question.id])
            yield f"the tests of {question.id} offer {total:g}, exercise.toml {question.points}"
        for folder in ("public", "hidden"):
            if (folder, question.id) not in has:
                yield f"{question.id} has no {folder} test"
    yield from _imports(spec)


def _cases(node: ast.FunctionDef) -> int:
    """Return how often a test runs: the product of its parametrize lists."""
    count = 1
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.parametrize":
            values = mark.args[1]
            if not isinstance(values, (ast.List, ast.Tuple)):
                raise ExerciseError(f"{node.name}: parametrize needs a list that can be read")
            count *= len(values.elts)
    return count


def _imports(spec: Spec) -> Iterator[str]:
    """Check that tests import nothing that reaches out."""
    for file in sorted((spec.path / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in FORBIDDEN & set(names):
                yield f"{file.name} imports {name}: a test asks the student and compares"


def _zoo(spec: Spec) -> Iterator[str]:
    """Check number, names and hints of the known answers."""
    wrong, right = read_answers(spec, "wrong"), read_answers(spec, "right")
    if len(right) < MIN_RIGHT:
        yield f"needs {MIN_RIGHT} right answers written differently, has {len(right)}"
    for answer in wrong:
        if not answer.hints:
            yield f"wrong/{answer.file}.py needs a hint: a second paragraph of its docstring"
    names = [answer.name for answer in wrong]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"two wrong answers are named {name!r}"
    for question in spec.questions:
        count = sum(answer.question == question.id for answer in wrong)
        if count < MIN_WRONG:
            yield f"{question.id} needs {MIN_WRONG} wrong answers, has {count}"


def _solution_text(spec: Spec) -> Iterator[str]:
    """Check that every answer is explained."""
    file = spec.path / "solution.md"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    for question in spec.questions:
        if not re.search(rf"^## {question.id}\b", text, flags=re.MULTILINE):
            yield f"solution.md has no section '## {question.id}'"
