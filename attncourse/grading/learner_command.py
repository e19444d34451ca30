"""`attncourse check`, `attncourse progress` and `attncourse exercise list|new|lint|build|kills`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

__all__ = ["add_command"]


def add_command(subparsers: Any) -> None:
    """Add the commands of learners and authors to the command line.

    Parameters
    ----------
    subparsers : argparse subparsers
        Of `attncourse`.
    """
    check = subparsers.add_parser("check", help="check the answers in a notebook or a .py file")
    check.add_argument("notebook")
    check.add_argument("--exercise", help="id or folder (default: the notebook's name)")
    check.add_argument("--question", action="append", help="only this one; may be repeated")
    check.add_argument("--hints", type=int, default=1, metavar="N", help="open N hints (1)")
    check.set_defaults(run=_check)
    progress = subparsers.add_parser("progress", help="show how far you are")
    progress.set_defaults(run=_progress)
    top = subparsers.add_parser("exercise", help="write, check and build exercises")
    kinds = top.add_subparsers(dest="kind", required=True, metavar="KIND")
    kinds.add_parser("list", help="list the exercises that are here").set_defaults(run=_list)
    new = kinds.add_parser("new", help="start an exercise that is complete and small")
    new.add_argument("folder", help="such as exercises/21_my_topic")
    new.add_argument("--title", default="My topic")
    new.set_defaults(run=_new)
    lint = kinds.add_parser("lint", help="find what is wrong with an exercise")
    lint.add_argument("exercise", nargs="+", help="folder or id")
    lint.add_argument("--static", action="store_true", help="do not run its answers")
    lint.set_defaults(run=_lint)
    build = kinds.add_parser("build", help="make student and solution notebook and private bundle")
    build.add_argument("exercise", nargs="+", help="folder or id")
    build.add_argument("--out", default="_build/exercises", help="folder (_build/exercises)")
    build.set_defaults(run=_build)
    kills = kinds.add_parser("kills", help="grade every wrong answer, print what each loses")
    kills.add_argument("exercise", nargs="*", help="folder or id (default: all)")
    kills.add_argument("--write", metavar="FILE", help="write the page instead of printing it")
    kills.set_defaults(run=_kills)


def _fail(error: object) -> int:
    """Say what is wrong with the order."""
    print(f"attncourse: {error}", file=sys.stderr)
    return 2


def _names(path: Path) -> dict[str, Any]:
    """Run a learner's own file and return its names; a cell that fails does not stop the next."""
    from attncourse.grading.format import SETUP, marks, read_notebook
    from attncourse.grading.proof import names_of

    if path.suffix == ".py":
        return names_of(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for cell in read_notebook(path)["cells"]:
        checks = marks(cell).get("grade") and not marks(cell).get("solution")
        if cell["cell_type"] != "code" or checks or cell.get("id") == SETUP:
            continue
        try:
            names_of(cell["source"], names)
        except Exception as error:
            print(f"cell {cell.get('id', '')}: {type(error).__name__}: {error}", file=sys.stderr)
    return names


def _check(arguments: argparse.Namespace) -> int:
    """Check a notebook."""
    from attncourse.grading.check import Exercise
    from attncourse.grading.exercise import ExerciseError

    path = Path(arguments.notebook)
    try:
        exercise = Exercise(arguments.exercise or path.stem)
        questions = arguments.question or [each.id for each in exercise.spec.questions]
        names, passed = _names(path), True
        for question in questions:
            for _ in range(max(1, arguments.hints)):
                report = exercise.check(question, namespace=names, raises=False)
            print(report)
            passed &= report.passed
    except (ExerciseError, OSError, ValueError, SyntaxError) as error:
        return _fail(error)
    return 0 if passed else 1


def _progress(_: argparse.Namespace) -> int:
    """Show the progress."""
    from attncourse.grading.progress import Progress

    print(Progress.read())
    return 0


def _specs(names: list[str]) -> list[Any]:
    """Read the named exercises, or all that can be found."""
    from attncourse.grading.exercise import folders, load

    if names:
        return [load(name) for name in names]
    found = {file.parent.name: file.parent for p in folders() for file in p.glob("*/exercise.toml")}
    return [load(found[name]) for name in sorted(found)]


def _list(_: argparse.Namespace) -> int:
    """List the exercises."""
    for spec in _specs([]):
        count = len(spec.questions)
        print(f"{spec.id:<26}{spec.title}: {count} questions, about {spec.minutes} minutes")
    return 0


def _new(arguments: argparse.Namespace) -> int:
    """Start an exercise."""
    from attncourse.grading.exercise import ExerciseError
    from attncourse.grading.new import new

    try:
        folder = new(Path(arguments.folder), arguments.title)
    except (ExerciseError, OSError) as error:
        return _fail(error)
    print(f"{folder}: change it piece by piece; after each: attncourse exercise lint {folder}")
    return 0


def _lint(arguments: argparse.Namespace) -> int:
    """Lint exercises."""
    from attncourse.grading.exercise import ExerciseError
    from attncourse.grading.lint import lint

    bad = 0
    try:
        for spec in _specs(arguments.exercise):
            problems = lint(spec, run=not arguments.static)
            bad += len(problems)
            print(f"{spec.id}: {len(problems) or 'no'} problems")
            for text in problems:
                print(f"  {text}")
    except (ExerciseError, OSError) as error:
        return _fail(error)
    return 1 if bad else 0


def _build(arguments: argparse.Namespace) -> int:
    """Build exercises."""
    from attncourse.grading.build import build
    from attncourse.grading.exercise import ExerciseError

    try:
        for spec in _specs(arguments.exercise):
            for path in build(spec, Path(arguments.out)):
                print(os.path.relpath(path))
    except (ExerciseError, OSError) as error:
        return _fail(error)
    return 0


def _kills(arguments: argparse.Namespace) -> int:
    """Print or write the table of known mistakes."""
    from attncourse.grading.exercise import ExerciseError
    from attncourse.grading.proof import kills, kills_page

    try:
        page = kills_page([(spec, kills(spec)) for spec in _specs(arguments.exercise)])
        if arguments.write:
            Path(arguments.write).write_text(page, encoding="utf-8", newline="\n")
        else:
            print(page)
    except (ExerciseError, OSError) as error:
        return _fail(error)
    return 0
