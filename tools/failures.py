"""Say in plain words what went wrong in a chapter's cell, on which machine.

The one idea: a reader, who did not write the cell, must be able to see what was expected and what
came, and to paste both into a report. A failure is a dictionary of texts, which the execution cache
keeps beside the chapter; ``book/_ext/course_trouble.py`` writes it into the page.
"""

import ast
import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from nbclient.exceptions import CellExecutionError, CellTimeoutError

ANSI = re.compile(r"\x1b\[[0-9;]*m")
LINE = re.compile(r"Cell In\[\d+\], line (\d+)")
PACKAGES = ("attncourse", "numpy", "torch", "triton")
# Variables that choose another arithmetic than the processor's best.
ARITHMETIC = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_CBWR", "OPENBLAS_CORETYPE")
LONGEST = 4000
ROUNDING = (
    "It may be this machine. Processors and versions of libraries round differently, and a result "
    "that stands close to its bound can then fall on the other side of it. Or it is a mistake of "
    "ours."
)
SLOW = "It may be this machine: a slow or busy one needs longer."
ENDED = "It may be this machine: a process that asks for more memory than there is gets ended."


def statement_at(source, line):
    """Return the innermost statement of some code that covers a line, or None."""
    try:
        tree = ast.parse(re.sub(r"(?m)^\s*[%!].*$", "", source))
    except SyntaxError:
        return None
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= node.end_lineno
    ]
    return found[-1] if found else None


def failed_statement(source, traceback):
    """Return the statement of a cell in which an error arose, or None where that is unknown."""
    match = LINE.search(ANSI.sub("", traceback))
    return match and statement_at(source, int(match[1]))


def sides(statement):
    """List the expressions that a failed assertion compares, constants left out.

    >>> sides(ast.parse("assert 0.5 < min(a, b) < c").body[0])
    ['min(a, b)', 'c']
    """
    if not isinstance(statement, ast.Assert):
        return []
    compared = [node for node in ast.walk(statement.test) if isinstance(node, ast.Compare)]
    parts = [part for node in compared for part in (node.left, *node.comparators)]
    values = [part for part in parts if not isinstance(part, ast.Constant)]
    return list(dict.fromkeys(map(ast.unparse, values)))


def is_assertion(statement):
    """Say whether a statement is an ``assert`` or a call such as ``assert_allclose``."""
    call = getattr(statement, "value", None)
    function = getattr(call, "func", None)
    name = getattr(function, "attr", getattr(function, "id", ""))
    return isinstance(statement, ast.Assert) or name.startswith("assert_")


def describe(cell, index, error, values=None, seconds=0):
    """Describe a cell that failed.

    Parameters
    ----------
    cell, index : notebook cell and int
        The cell and its place in the notebook.
    error : Exception
        What nbclient raised.
    values : dict of str to str, optional
        Expressions of the failed assertion and what they are.
    seconds : float
        What a cell may take.

    Returns
    -------
    dict
        ``index``, a number, and the texts ``cell``, ``expected``, ``came``, ``why``, ``traceback``
        and ``machine``.
    """
    if isinstance(error, CellExecutionError):
        statement = failed_statement(cell.source, error.traceback)
        expected = "the cell runs without an error"
        if is_assertion(statement):
            expected = ast.get_source_segment(cell.source, statement)
        came = f"{error.ename}: {ANSI.sub('', error.evalue)}".rstrip(": ")
        came += "".join(f"\n{name} is {value}" for name, value in (values or {}).items())
        why = ROUNDING
    elif isinstance(error, CellTimeoutError):
        expected = f"the cell ends within {seconds:g} seconds"
        came, why = f"it still ran after {seconds:g} seconds and was stopped", SLOW
    else:
        expected = "the cell runs to its end"
        came, why = f"the process that ran it ended: {error}", ENDED
    texts = {"expected": expected, "came": came, "why": why, "traceback": traceback_of(cell)}
    shortened = {name: text[-LONGEST:] for name, text in texts.items()}
    return {"cell": cell.get("id", str(index)), "index": index, "machine": machine(), **shortened}


def traceback_of(cell):
    """Return the traceback that a cell shows, without colours."""
    errors = [out for out in cell.get("outputs", []) if out.output_type == "error"]
    return ANSI.sub("", "\n".join(line for error in errors for line in error.traceback))


def machine():
    """Say what a report must tell of the machine and the versions, as lines of text.

    The package itself is not asked: it may be what fails.
    """
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = re.findall(r"model name\s*:\s*(.+)", info.read_text(encoding="utf-8"))
        cpu = names[0] if names else cpu
    lines = [f"{platform.platform()}, {cpu}, {os.cpu_count()} cores"]
    lines.append(", ".join([f"Python {platform.python_version()}", *map(installed, PACKAGES)]))
    lines += [f"{name}={os.environ[name]}" for name in ARITHMETIC if name in os.environ]
    return "\n".join(lines)


def installed(name):
    """Return a package's name and version."""
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"no {name}"
