"""Show the package's own source inside a chapter, so that no page pastes a copy."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

__all__ = ["show_source", "source_text"]


def source_text(item: Any, *, docstring: bool = False) -> str:
    """Return the real source of a function, class or module.

    Parameters
    ----------
    item : function, class or module
        Anything written in Python that `inspect` can find; a Triton kernel too.
    docstring : bool, default False
        Keep the docstring of a function or class; a module keeps all of its text.

    Returns
    -------
    str
        The source, dedented.
    """
    item = _python_function(item)
    text = inspect.cleandoc("\n" + inspect.getsource(item))
    if docstring or inspect.ismodule(item):
        return text
    return _without_docstring(text)


def show_source(item: Any, *, docstring: bool = False) -> None:
    """Display the real source of a function, class or module as highlighted code.

    Parameters
    ----------
    item, docstring
        As in `source_text`.
    """
    from IPython.display import Markdown, display

    file = Path(inspect.getsourcefile(inspect.unwrap(_python_function(item))) or "?")
    code = source_text(item, docstring=docstring)
    display(Markdown(f"`{file.parent.name}/{file.name}`\n\n```python\n{code}\n```"))


def _python_function(item: Any) -> Any:
    """Return the function that `triton.jit` wrapped, and anything else as it is."""
    return getattr(item, "fn", item) if type(item).__module__.startswith("triton") else item


def _without_docstring(text: str) -> str:
    """Cut the first docstring out of one definition, leaving every other line as it is."""
    body = ast.parse(text).body[0].body  # type: ignore[attr-defined]
    first = body[0]
    if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)):
        return text
    lines = text.splitlines()
    kept = lines[: first.lineno - 1] + lines[first.end_lineno :]
    return "\n".join(kept)
