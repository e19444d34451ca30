"""`attncourse check`, `attncourse progress` and `attncourse exercise list|new|lint|build|kills`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
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


def _check(arguments: argparse.Namespace) -> int:
    """Check a notebook."""
    from attncourse._needs import need
    from attncourse.grading.file_check import check_file

    need("pytest")
    path, passed = Path(arguments.notebook), set()
    try:
        spec = _exercise_of(path, arguments.exercise)
        asked = arguments.question or [each.id for each in spec.questions]
        questions = [spec.question(name).id for name in asked]
        for outcome in check_file(path, spec, questions, arguments.hints):
            if isinstance(outcome.step, str):
                print(outcome.text, flush=True)
                passed |= {outcome.step} if outcome.passed else set()
            elif outcome.text:
                where = path.name if path.suffix == ".py" else f"cell {outcome.step}"
                print(f"{where}: {outcome.text}", file=sys.stderr)
    except (OSError, ValueError, SyntaxError) as error:
        return _fail(error)
    except KeyboardInterrupt:
        return 130
    return 0 if passed.issuperset(questions) else 1


def _exercise_of(path: Path, named: str | None) -> Any:
    """Read the exercise that is named, or the one that a file is named after."""
    from attncourse.grading.exercise import ExerciseError, load

    try:
        return load(named or path.stem)
    except ExerciseError as error:
        hint = "" if named else f"; if {path.name} answers one of them, name it: --exercise ID"
        raise ExerciseError(f"{error}{hint}") from None


def _progress(_: argparse.Namespace) -> int:
    """Show the progress."""
    from attncourse.grading.progress import Progress

    print(Progress.read())
    return 0


def _specs(names: list[str], read: Callable[[Any], Any]) -> list[Any]:
    """Read the named exercises, or all that can be found."""
    from attncourse.grading.exercise import folders

    if names:
        return [read(name) for name in names]
    found = {file.parent.name: file.parent for p in folders() for file in p.glob("*/exercise.toml")}
    return [read(found[name]) for name in sorted(found)]


def _list(_: argparse.Namespace) -> int:
    """List the exercises."""
    from attncourse.grading.exercise import load

    for spec in _specs([], load):
        count = len(spec.questions)
        print(f"{spec.id:<26}{spec.title}: {count} questions, about {spec.minutes} minutes")
    return 0


def _new(arguments: argparse.Namespace) -> int:
    """Start an exercise."""
    from attncourse.grading.new import new

    try:
        folder = new(Path(arguments.folder), arguments.title)
    except (OSError, ValueError) as error:
        return _fail(error)
    print(f"{folder}: change it piece by piece; after each: attncourse exercise lint {folder}")
    return 0


def _lint(arguments: argparse.Namespace) -> int:
    """Lint exercises."""
    from attncourse.grading.exercise import load_to_author
    from attncourse.grading.lint import lint

    bad = 0
    try:
        for spec in _specs(arguments.exercise, load_to_author):
            problems = lint(spec, run=not arguments.static)
            bad += len(problems)
            print(f"{spec.id}: {len(problems) or 'no'} problems")
            for text in problems:
                print(f"  {text}")
    except (OSError, ValueError) as error:
        return _fail(error)
    return 1 if bad else 0


def _build(arguments: argparse.Namespace) -> int:
    """Build exercises."""
    from attncourse.grading.build import build
    from attncourse.grading.exercise import load_to_author

    try:
        for spec in _specs(arguments.exercise, load_to_author):
            for path in build(spec, Path(arguments.out)):
                print(os.path.relpath(path))
    except (OSError, ValueError) as error:
        return _fail(error)
    return 0


def _kills(arguments: argparse.Namespace) -> int:
    """Print or write the table of known mistakes."""
    from attncourse.grading.exercise import load_to_author
    from attncourse.grading.proof import kills, kills_page

    try:
        page = kills_page(
            [(spec, kills(spec)) for spec in _specs(arguments.exercise, load_to_author)]
        )
        if arguments.write:
            Path(arguments.write).write_text(page, encoding="utf-8", newline="\n")
        else:
            print(page)
    except (OSError, ValueError) as error:
        return _fail(error)
    return 0
