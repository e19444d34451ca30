"""Run an exercise's tests with pytest against one `student`, wherever that student lives.

The one idea: pytest is the test engine, and the test files do not know which transport answers
their calls. This module is the only place that starts pytest, for the learner's instant check and
for the grader.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncourse.grading.exercise import ExerciseError
from attncourse.grading.inside.wire import StudentError
from attncourse.grading.student import Asked, Student, Transport

__all__ = ["TestResult", "run"]

MESSAGE_LIMIT = 2000
# No file beside the tests, no settings of the folder we happen to stand in, no capture (a notebook
# has no file descriptors to capture), no rewriting of assertions (it would print hidden values).
_OFF = ("cacheprovider", "terminal", "faulthandler", "logging", "junitxml", "doctest", "warnings")
_OPTIONS = ["--assert=plain", "--noconftest", "-c", os.devnull, "--capture=no"]
_OPTIONS += ["--import-mode=importlib", *[f"-pno:{name}" for name in _OFF]]
_OPTIONS += ["-pno:unraisableexception", "-pno:threadexception"]
_MARKERS = ("question(id): whose test this is", "points(n): what it is worth", "hint(*tiers): help")


@dataclass
class TestResult:
    """What one test found.

    Parameters
    ----------
    nodeid : str
        `test_file.py::test_name[case]`.
    question : str or None
        From its marker.
    points : object
        What it is worth, as written.
    outcome : str
        `passed`; `failed`: the learner's fault; `error`: the test's own fault.
    message : str
        Why it did not pass.
    hints : list of str
        In tiers, the mildest first.
    title : str
        The test's docstring, or its name as words.
    trace : list of Asked
        What it asked and got.
    """

    __test__ = False
    nodeid: str
    question: str | None
    points: Any
    outcome: str
    message: str
    hints: list[str]
    title: str = ""
    trace: list[Asked] = field(default_factory=list, repr=False)


class _Plugin:
    """What pytest needs to know about exercises."""

    def __init__(
        self, transport: Transport, select: Collection[str] | None, seed: int | None
    ) -> None:
        self.transport, self.select, self.seed = transport, select, seed
        self.rows: list[TestResult] = []
        self.broken: list[str] = []
        self.trace: list[Asked] = []
        self.collected = 0

    @pytest.fixture(name="student")
    def give_student(self) -> Student:
        """Give a test the learner's code."""
        return Student(self.transport, self.trace)

    @pytest.fixture(name="rng")
    def give_rng(self) -> np.random.Generator:
        """Give a test random numbers: those of the course's secret seed, if it has one."""
        return np.random.default_rng(self.seed if self.seed is not None else 20170612)

    def pytest_configure(self, config: Any) -> None:
        """Declare the markers; make no tracebacks, which take time and print arguments."""
        config.option.tbstyle = "no"
        for line in _MARKERS:
            config.addinivalue_line("markers", line)

    def pytest_collectreport(self, report: Any) -> None:
        """Remember a test file that cannot be imported."""
        if report.failed:
            self.broken.append(f"{report.nodeid}: {str(report.longrepr)[-1500:]}")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep the tests of the selected questions."""
        self.collected = len(items)
        if self.select is not None:
            items[:] = [item for item in items if _marker(item, "question", [""])[0] in self.select]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: Any) -> None:
        """Start a test's trace."""
        self.trace = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        """Tell the transport which question asks."""
        self.transport.begin(_marker(item, "question", [None])[0])
        try:
            return (yield)
        finally:
            self.transport.begin(None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
        """Write down what came of a test."""
        report = yield
        if report.when == "call" or report.failed:
            error = call.excinfo.value if call.excinfo else None
            self.rows.append(_row(item, error, report.passed, self.trace))
        return report


def _marker(item: Any, name: str, default: list[Any]) -> list[Any]:
    """Return a marker's arguments."""
    found = item.get_closest_marker(name)
    return list(found.args) if found and found.args else default


def _row(item: Any, error: BaseException | None, passed: bool, trace: list[Asked]) -> TestResult:
    """Return a test's result."""
    # After a call, what a test cannot cope with is what came back; unless the transport failed.
    # A name or a module that is missing is never what came: only plain values come.
    own = isinstance(error, (NameError, ImportError))
    odd = bool(trace) and not trace[-1].broken and not own
    fault = isinstance(error, (AssertionError, StudentError)) or odd
    outcome = "passed" if passed else "failed" if fault else "error"
    return TestResult(
        nodeid=item.nodeid.rsplit("/", 1)[-1],
        question=_marker(item, "question", [None])[0],
        points=_marker(item, "points", [1])[0],
        outcome=outcome,
        message="" if passed else _message(error),
        hints=[str(text) for text in _marker(item, "hint", [])],
        title=_title(item),
        trace=trace,
    )


def _message(error: BaseException | None) -> str:
    """Return an error as a learner should read it."""
    text = str(error).strip()
    if not isinstance(error, (AssertionError, StudentError)):
        text = f"the test could not use what came: {type(error).__name__}: {text}"
    return text[:MESSAGE_LIMIT]


def _title(item: Any) -> str:
    """Return the first line of a test's docstring, or its name as words."""
    doc = (getattr(item.obj, "__doc__", None) or "").strip().split("\n")[0].rstrip(".")
    case = f" [{item.callspec.id}]" if hasattr(item, "callspec") else ""
    return (doc or item.originalname.removeprefix("test_").replace("_", " ")) + case


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Import test files anew and forget them; load no foreign pytest plugin; print nothing."""
    names = {file.stem for file in folder.rglob("*.py")}
    kept = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    finders, bytecode = list(sys.meta_path), sys.dont_write_bytecode
    # A pytest around this one (our own tests) would rewrite the assertions.
    sys.meta_path[:] = [f for f in finders if type(f).__name__ != "AssertionRewritingHook"]
    sys.dont_write_bytecode = True
    try:
        with _environment(), contextlib.redirect_stdout(io.StringIO()) as sink:
            with contextlib.redirect_stderr(sink):
                yield
    finally:
        sys.meta_path[:], sys.dont_write_bytecode = finders, bytecode
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(kept)


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Take pytest's own variables out of the environment for a while."""
    names = [name for name in os.environ if name.startswith("PYTEST_")]
    before = {name: os.environ.pop(name) for name in names}
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("PYTEST_")]:
            del os.environ[name]
        os.environ.update(before)


def run(
    tests_dir: str | os.PathLike[str],
    transport: Transport,
    *,
    select: Collection[str] | None = None,
    seed: int | None = None,
) -> list[TestResult]:
    """Run the tests of a folder.

    Parameters
    ----------
    tests_dir : path
        Folder with `test_*.py`.
    transport : Transport
        Who answers what the fixture `student` is asked.
    select : collection of str, optional
        Ids of the questions whose tests run; all by default.
    seed : int, optional
        Seed of the fixture `rng`.

    Returns
    -------
    list of TestResult
        In the order of the files.

    Raises
    ------
    ExerciseError
        If a file cannot be imported, or if no test is there.
    KeyboardInterrupt
        If the learner stopped the run.
    """
    folder = Path(tests_dir).resolve()
    plugin = _Plugin(transport, select, seed)
    with _alone(folder):
        code = pytest.main([*_OPTIONS, f"--rootdir={folder}", str(folder)], plugins=[plugin])
    if code == pytest.ExitCode.INTERRUPTED and not plugin.broken:
        raise KeyboardInterrupt
    if plugin.broken:
        raise ExerciseError(f"{folder}: cannot be imported: " + "; ".join(plugin.broken))
    if plugin.collected == 0 or code in (3, 4):
        raise ExerciseError(f"{folder}: pytest found {plugin.collected} tests, exit status {code}")
    return plugin.rows
