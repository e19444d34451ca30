"""Show the package's own source inside a chapter, so that no page pastes a copy."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from typing import Any

__all__ = ["show_source", "source_text"]


def source_text(
    item: Any, *, docstring: bool = False, start: str | None = None, stop: str | None = None
) -> str:
    """Return the real source of a function, class or module.

    Parameters
    ----------
    item : function, class or module
        Anything written in Python that `inspect` can find; a Triton kernel too.
    docstring : bool, default False
        Keep the docstring of a function or class; a module keeps all of its text.
    start, stop : str, optional
        Show a part of a long function: from the first line that holds `start`, up to the
        next line that holds `stop`, which is left out.

    Returns
    -------
    str
        The source, dedented.

    Raises
    ------
    ValueError
        When no line holds `start`, or none after it holds `stop`.
    """
    item = _python_function(item)
    text = inspect.cleandoc("\n" + inspect.getsource(item))
    if not docstring and not inspect.ismodule(item):
        text = _without_docstring(text)
    lines = text.splitlines()
    first = 0 if start is None else _line_with(start, lines, 0)
    last = len(lines) if stop is None else _line_with(stop, lines, first + 1)
    return textwrap.dedent("\n".join(lines[first:last])).rstrip()


def show_source(
    item: Any, *, docstring: bool = False, start: str | None = None, stop: str | None = None
) -> None:
    """Display the real source of a function, class or module as highlighted code.

    Parameters
    ----------
    item, docstring, start, stop
        As in `source_text`.
    """
    from IPython.display import Markdown, display

    file = Path(inspect.getsourcefile(inspect.unwrap(_python_function(item))) or "?")
    code = source_text(item, docstring=docstring, start=start, stop=stop)
    part = "" if start is stop is None else ", in part"
    display(Markdown(f"`{file.parent.name}/{file.name}`{part}\n\n```python\n{code}\n```"))


def _python_function(item: Any) -> Any:
    """Return the function that `triton.jit` wrapped, and anything else as it is."""
    return getattr(item, "fn", item) if type(item).__module__.startswith("triton") else item


def _line_with(text: str, lines: list[str], first: int) -> int:
    """Return the first line, from `first` on, that holds a text."""
    for number in range(first, len(lines)):
        if text in lines[number]:
            return number
    raise ValueError(f"no line from {first + 1} on holds {text!r}")


def _without_docstring(text: str) -> str:
    """Cut the first docstring out of one definition, leaving every other line as it is."""
    body = ast.parse(text).body[0].body  # type: ignore[attr-defined]
    first = body[0]
    if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)):
        return text
    lines = text.splitlines()
    kept = lines[: first.lineno - 1] + lines[first.end_lineno :]
    return "\n".join(kept)
