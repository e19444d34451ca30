"""Run a notebook's code in this process: what `check` and the proof of an exercise share.

The one idea: code means here what it means to the grader. A line that only IPython understands is
left out only where a statement begins, line numbers stay, and checks in the code do nothing.
"""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import re
import tokenize
from collections.abc import Iterator
from typing import Any

__all__ = ["checks_do_nothing", "run", "without_magics"]

_MAGIC = re.compile(r"(\s*)(?:[%!?]|[\w.]+\?\??\s*$)")


def without_magics(source: str) -> str:
    r"""Put `pass` in place of each line that only IPython understands.

    Parameters
    ----------
    source : str
        Text of a cell or a file. If Python understands it, it comes back as it is.

    Returns
    -------
    str
        As many lines as before.

    Examples
    --------
    >>> without_magics("%time 1\nx = (7\n% 4)")
    'pass\nx = (7\n% 4)'
    """
    with contextlib.suppress(SyntaxError, ValueError):
        ast.parse(source)
        return source
    kept: list[str] = []
    for line in source.split("\n"):
        magic = _MAGIC.match(line)
        kept.append(f"{magic[1]}pass" if magic and not _is_open("\n".join(kept)) else line)
    return "\n".join(kept)


def _is_open(text: str) -> bool:
    """Tell whether a statement goes on after a text: a bracket, a string, a backslash."""
    try:
        for _ in tokenize.generate_tokens(io.StringIO(text + "\n").readline):
            pass
    except tokenize.TokenError:
        return True
    except SyntaxError:
        return False
    return text.endswith("\\")


def run(source: str, names: dict[str, Any], file: str) -> None:
    """Run code over some names, without its magics and with nothing printed.

    Parameters
    ----------
    source : str
        The code.
    names : dict
        Names that it may use, and where it leaves its own.
    file : str
        What its lines belong to in a traceback.
    """
    text = without_magics(source)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    with contextlib.redirect_stdout(io.StringIO()), checks_do_nothing():
        exec(compile(text, file, "exec"), names)


@contextlib.contextmanager
def checks_do_nothing() -> Iterator[None]:
    """Let `Exercise` be the one that the grader's sandbox shows: its checks do nothing."""
    from attncourse import grading
    from attncourse.grading.inside.stand_ins.grading import Exercise

    grading.__dict__["Exercise"] = Exercise
    try:
        yield
    finally:
        del grading.__dict__["Exercise"]
