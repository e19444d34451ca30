"""Let a cell run on without what is not there, and measure nothing.

The one idea: a notebook that plots with a package that the grader lacks, or times itself, still
holds right answers. An import that fails at the top of a cell is left out and reported by name; the
rest of the cell runs. `%timeit` runs its code once.
"""

from __future__ import annotations

import ast
import builtins
import re
from typing import Any

__all__ = ["lenient_imports", "run_once"]

_NOTE = "__attncourse_left_out__"
_OPTIONS = re.compile(r"(-[a-z]+\s*\d*\s+)*")


class _Imports(ast.NodeTransformer):
    """Catch the failure of each import at the top of a cell."""

    def visit_Module(self, node: ast.Module) -> ast.Module:
        """Wrap the imports; leave everything inside functions and blocks alone."""
        node.body = [self._guarded(statement) for statement in node.body]
        return ast.fix_missing_locations(node)

    @staticmethod
    def _guarded(statement: ast.stmt) -> ast.stmt:
        """Return an import that reports its failure; anything else as it is."""
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            return statement
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            return statement
        (guard,) = ast.parse(f"try: pass\nexcept ModuleNotFoundError as e: {_NOTE}(e)").body
        assert isinstance(guard, ast.Try)
        guard.body = [statement]
        return ast.copy_location(guard, statement)


def lenient_imports(shell: Any) -> list[str]:
    """Make a shell run on after an import that fails.

    Parameters
    ----------
    shell : IPython shell
        Which is changed.

    Returns
    -------
    list of str
        Live: what has been left out since it was last cleared.
    """
    left_out: list[str] = []

    def note(error: ModuleNotFoundError) -> None:
        """Keep what is missing."""
        left_out.append(f"{error}: this import is left out, the rest of the cell runs"[:300])

    setattr(builtins, _NOTE, note)
    shell.ast_transformers.append(_Imports())
    return left_out


def run_once(shell: Any) -> Any:
    """Return a magic for `%timeit` and `%%timeit` that runs the code once and keeps no name."""

    def timeit(line: str, cell: str | None = None) -> None:
        """Run the code once."""
        code = _OPTIONS.sub("", line, count=1) if cell is None else cell
        exec(shell.transform_cell(code), dict(shell.user_ns))

    return timeit
