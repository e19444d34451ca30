"""The package itself with one line changed: does the suite notice?

The one idea: a change of `attncourse.call`, `masks`, `softmax` or a rung reaches a call only
through imports, so each change gets a process of its own. It is a fork of a process that has
PyTorch and not yet attncourse, so that it costs a fraction of a second. `package.toml` lists the
changes, as the other lists do, with the module that is changed, the rung that is run, and the case
of the suite that must fail. `package_parts.toml` goes on with what a plain call does not reach:
there a test of that part may stand in the case's place.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import json
import os
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LISTS = ("package.toml", "package_parts.toml")
ROOT = HERE.parents[1]
CRASHED = " (crash)"  # behind the name of a case whose call raised


@dataclass(frozen=True)
class Change:
    """One text of a module, and what it becomes.

    Attributes
    ----------
    name : str
        What is wrong afterwards.
    module : str
        Such as "attncourse.call".
    rung : str
        The rung of the ladder that is run, or a name of `tile_subjects.SUBJECTS`.
    caught_by : str
        The case that must fail; where no rung is named, a test: "test_file.py::test_name".
    find, become : str
        The text, which stands in the module exactly once, and the new one.
    crash : bool
        Whether the call ends in an error instead of a wrong answer.
    """

    name: str
    module: str
    rung: str
    caught_by: str
    find: str
    become: str
    crash: bool = False

    def source(self) -> str:
        """Return the module's changed source.

        Raises
        ------
        ValueError
            When the text does not stand in the module exactly once, or nothing changes.
        """
        text = ROOT.joinpath(*self.module.split(".")).with_suffix(".py").read_text("utf-8")
        if text.count(self.find) != 1 or self.find == self.become:
            count = text.count(self.find)
            raise ValueError(f"{self.name}: {self.find!r} stands {count} times, expected 1")
        return text.replace(self.find, self.become)


def changes() -> list[Change]:
    """Return both lists."""
    texts = [(HERE / name).read_text("utf-8") for name in LISTS]
    entries = [entry for text in texts for entry in tomllib.loads(text)["change"]]
    return [Change(**{"rung": "", **entry}) for entry in entries]


class Patched(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Find one module, and load its changed source instead of the file's."""

    def __init__(self, change: Change) -> None:
        self.change = change

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Answer for the changed module only."""
        if fullname != self.change.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        importlib.machinery.SourceFileLoader.__init__(self, fullname, spec.origin)
        spec.loader = self
        return spec

    def get_code(self, fullname: str) -> Any:
        """Compile the changed source; no cached bytecode is read or written."""
        return compile(self.change.source(), self.get_filename(fullname), "exec")


def failing(change: Change | None, rung: str, only: Iterable[str], level: str) -> list[str]:
    """Run cases against a rung in this process, once: attncourse is imported here."""
    if change is not None:
        sys.meta_path.insert(0, Patched(change))
    if not rung:
        return failing_tests(only)
    import warnings

    from tile_subjects import SUBJECTS

    from attncourse import conformance
    from attncourse.conformance._run import report_on

    warnings.simplefilter("ignore")
    subject = SUBJECTS.get(rung) or conformance.subject_of(rung)
    report = report_on(subject, conformance.all_cases(), level, list(only) or "")
    if not (report.passed or report.failed):
        raise ValueError(f"no case of {rung} was run: {list(only)}")
    return [o.case.name + CRASHED * (o.what == "call") for o in report.failed]


def failing_tests(names: Iterable[str]) -> list[str]:
    """Run tests until one fails; return those that failed, by the names they were asked by."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest

    failed = []

    class Noted:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                failed.append(report.nodeid.rpartition("tests/")[2])

    wanted = sorted(set(names))
    paths = [str(HERE.parent / name) for name in wanted]
    # Nothing that a plain assertion does not need: each process runs for one test.
    options = ["-x", "--assert=plain", "--noconftest", "-c", os.devnull, "--rootdir", str(ROOT)]
    options += ["-p", "no:cacheprovider", "-W", "ignore"]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        status = pytest.main([*options, *paths], plugins=[Noted()])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise ValueError(f"no test was run: {wanted}")
    return [name for name in wanted if any(f"{at}[".startswith(f"{name}[") for at in failed)]


def in_a_fork(change: Change | None, rung: str, only: Iterable[str], level: str) -> Any:
    """Run `failing` in a fork; return its list, or the text of what stopped it."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            found: Any = failing(change, rung, only, level)
        except BaseException as problem:  # told to the parent, whatever it is
            found = f"{type(problem).__name__}: {problem}"
        os.write(writing, json.dumps(found).encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else "the process died"


def main() -> None:
    """Print what became of every change, as JSON; ``--all`` runs every case and says which fail."""
    import pytest  # noqa: F401  (once, and not in each fork)
    import torch

    torch.set_num_threads(1)
    assert not any(name.startswith("attncourse") for name in sys.modules)
    found = {}
    for change in changes():
        only = [] if "--all" in sys.argv and change.rung else [change.caught_by]
        found[change.name] = in_a_fork(change, change.rung, only, "full")
        if "--all" in sys.argv:
            print(f"{change.name}: {found[change.name]}", file=sys.stderr, flush=True)
    for rung in sorted({change.rung for change in changes()}):
        only = [change.caught_by for change in changes() if change.rung == rung]
        found[f"nothing, {rung}"] = in_a_fork(None, rung, only, "full")
    print(json.dumps(found))


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(HERE.parent)]
    main()
