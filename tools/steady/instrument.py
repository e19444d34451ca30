"""Rewrite the asserts of a cell so that they note by how much they hold, and do not stop it.

``assert low < found.min()`` becomes a call that notes ``found.min() - low``. Comparisons are read
where the assert needs all of them (``a < b < c``, ``and``, ``all(…)``, ``(a < b).all()``); under
``or``, ``not``, ``any`` only the verdict is noted. What stands inside ``try`` or ``with
pytest.raises`` is left alone: there a failure is wanted.
"""

from __future__ import annotations

import ast
import re

from IPython.core.inputtransformer2 import TransformerManager

WATCH = "__steady__"
_WITHOUT_MAGICS = TransformerManager()
_ORDER = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_ALL = {"all"}


def seeded(source: str, seed: int) -> tuple[str, int]:
    """Put a seed into ``SEED = 0``; return the source and how many such lines it had."""
    return re.subn(r"^SEED = 0\b", f"SEED = {seed}", source, flags=re.MULTILINE)


def instrument(source: str, cell: str) -> str:
    """Rewrite one code cell.

    Parameters
    ----------
    source : str
        The cell's code; IPython's magics are allowed.
    cell : str
        The cell's id, noted with every assert.

    Returns
    -------
    str
        `source` itself where nothing is asserted.
    """
    if "assert" not in source:
        return source
    tree = ast.parse(_WITHOUT_MAGICS.transform_cell(source))
    rewriter = _Asserts(cell)
    tree = ast.fix_missing_locations(rewriter.visit(tree))
    return ast.unparse(tree) if rewriter.changed else source


class _Asserts(ast.NodeTransformer):
    """Replace ``assert …`` and ``….assert_…(…)``."""

    def __init__(self, cell: str) -> None:
        self.cell, self.changed = cell, False

    def visit_Try(self, node: ast.Try) -> ast.Try:
        """Leave alone what stands where a failure may be wanted."""
        return node

    visit_TryStar = visit_Try

    def visit_With(self, node: ast.With) -> ast.AST:
        """Look into ``with torch.no_grad()``, not into ``with pytest.raises(…)``."""
        managers = " ".join(ast.unparse(item.context_expr) for item in node.items)
        wanted = re.search(r"raises|suppress|assertRaises", managers)
        return node if wanted else self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """Turn an assert into a note."""
        text = ast.unparse(node.test)
        return self._noted(node, "hold", text, [_read(node.test)], [])

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        """Turn ``np.testing.assert_allclose(…)`` and its like into a note."""
        call = node.value
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            return node
        if not call.func.attr.startswith("assert_"):
            return node
        arguments = [call.func, *call.args]
        return self._noted(node, "call", ast.unparse(call), arguments, call.keywords)

    def _noted(self, node, method, text, arguments, keywords) -> ast.stmt:
        self.changed = True
        place = [ast.Constant(self.cell), ast.Constant(node.lineno), ast.Constant(text)]
        call = _watch(method, [*place, *arguments], keywords)
        return ast.copy_location(ast.Expr(call), node)


def _watch(method: str, arguments: list, keywords=()) -> ast.Call:
    function = ast.Attribute(ast.Name(WATCH, ast.Load()), method, ast.Load())
    return ast.Call(function, arguments, list(keywords))


def _read(test: ast.expr) -> ast.expr:
    """Wrap the comparisons that must all hold for the test to hold."""
    if isinstance(test, ast.Compare) and all(type(op) in _ORDER for op in test.ops):
        rest = [part for op, right in zip(test.ops, test.comparators, strict=True)
                for part in (ast.Constant(_ORDER[type(op)]), right)]  # fmt: skip
        return _watch("compare", [test.left, *rest])
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return ast.BoolOp(ast.And(), [_read(value) for value in test.values])
    if isinstance(test, ast.Call) and not test.keywords:
        name = test.func.id if isinstance(test.func, ast.Name) else getattr(test.func, "attr", "")
        if name in _ALL and len(test.args) == 1:
            return ast.Call(test.func, [_read(test.args[0])], [])
        if name in _ALL and not test.args and isinstance(test.func, ast.Attribute):
            inner = ast.Attribute(_read(test.func.value), "all", ast.Load())
            return ast.Call(inner, [], [])
    if isinstance(test, ast.GeneratorExp | ast.ListComp):
        return type(test)(_read(test.elt), test.generators)
    return test
