"""Show the package's own source inside a chapter, so that no page pastes a copy."""

from __future__ import annotations

import ast
import inspect
import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["show_source", "source_text"]


def source_text(
    item: Any, *, docstring: bool = False, start: str | None = None, stop: str | None = None
) -> str:
    """Return the real source of a function, class or module.

    Parameters
    ----------
    item : function, class or module, or str
        Anything written in Python that `inspect` can find; a Triton kernel too. The name of a
        function or class, such as "attncourse.softmax.stable", is looked up in its file, which
        is not imported: so a kernel can be read where Triton is missing.
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
        When no line holds `start`, or none after it holds `stop`, or a name is not there.
    """
    item = _python_function(item)
    text = _looked_up(item)[1] if isinstance(item, str) else inspect.getsource(item)
    text = inspect.cleandoc("\n" + text)
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

    if isinstance(item, str):
        file = _looked_up(item)[0]
    else:
        file = Path(inspect.getsourcefile(inspect.unwrap(_python_function(item))) or "?")
    code = source_text(item, docstring=docstring, start=start, stop=stop)
    part = "" if start is stop is None else ", in part"
    display(Markdown(f"`{file.parent.name}/{file.name}`{part}\n\n```python\n{code}\n```"))


def _looked_up(name: str) -> tuple[Path, str]:
    """Return the file that defines a function or class, and the lines of its definition."""
    module, _, wanted = name.rpartition(".")
    spec = find_spec(module) if module else None
    if spec is None or spec.origin is None:
        raise ValueError(f"wanted a name such as 'attncourse.softmax.stable', got {name!r}")
    text = Path(spec.origin).read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == wanted:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            return Path(spec.origin), "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    raise ValueError(f"{module} defines no function or class {wanted!r} at its top")


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
