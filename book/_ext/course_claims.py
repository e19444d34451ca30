"""Generate the claims ledger from ``book/claims.toml`` and the tags of the chapters' cells.

A cell that executes the check of a statement carries the tag ``claim-<id>``. The ledger links to
each such cell. The build fails where a statement that belongs to a chapter of this book has no
cell there, or only cells that cannot fail because they assert nothing.
"""

import ast
import json
import re
import tomllib
from pathlib import Path

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

LOGGER = logging.getLogger(__name__)
VERDICTS = {"shown", "shown under conditions", "corrected"}
TAG = "claim-"
TOLERANCES = ("rtol", "atol", "rel", "abs")
SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
TURNED = str.maketrans("<>", "><")
UNBROKEN = str.maketrans({" ": "\N{NO-BREAK SPACE}", "-": "\N{NON-BREAKING HYPHEN}"})


def cell_anchor(cell):
    """Return the id that a notebook cell has on its page."""
    return f"cell-{cell['id']}"


def asserts(source):
    """Say whether code can fail: an ``assert`` or a call such as ``assert_allclose``.

    >>> asserts("np.testing.assert_allclose(a, b)"), asserts("print('assert')")
    (True, False)
    """
    for node in ast.walk(ast.parse(re.sub(r"(?m)^\s*[%!].*$", "", source))):
        name = getattr(node, "attr", getattr(node, "id", ""))
        if isinstance(node, ast.Assert) or name.startswith("assert_"):
            return True
    return False


def bounds(source):
    """List the numbers that code holds its results to, in the order in which they stand.

    >>> bounds("assert 0.5 < share < 0.7; np.testing.assert_allclose(a, b, rtol=0.06)")
    ['> 0.5', '< 0.7', 'rtol 0.06']
    """
    found = []
    for node in ast.walk(ast.parse(re.sub(r"(?m)^\s*[%!].*$", "", source))):
        if isinstance(node, ast.Assert):
            found += [b for each in ast.walk(node.test) for b in _compared(each)]
        if isinstance(node, ast.Call):
            found += [
                f"{word.arg} {ast.unparse(word.value)}"
                for word in node.keywords
                if word.arg in TOLERANCES
            ]
    return list(dict.fromkeys(found))


def _compared(node):
    """Yield the fractions that one comparison holds something to."""
    if not isinstance(node, ast.Compare):
        return
    sides = [node.left, *node.comparators]
    for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
        sign = SIGNS.get(type(operator))
        if sign and _is_fraction(right):
            yield f"{sign} {ast.unparse(right)}"
        elif sign and _is_fraction(left):
            yield f"{sign.translate(TURNED)} {ast.unparse(left)}"


def _is_fraction(node):
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Constant) and isinstance(node.value, float)


def tagged_cells(notebook):
    """Yield ``(claim, anchor, can fail)`` for each tagged code cell of a notebook file."""
    for cell in json.loads(Path(notebook).read_text(encoding="utf8"))["cells"]:
        for tag in cell["metadata"].get("tags", []):
            if tag.startswith(TAG) and cell["cell_type"] == "code":
                yield tag.removeprefix(TAG), cell_anchor(cell), asserts("".join(cell["source"]))


def held_to(notebook, claim):
    """List the bounds in all cells of a notebook file that check a claim."""
    cells = json.loads(Path(notebook).read_text(encoding="utf8"))["cells"]
    sources = ["".join(c["source"]) for c in cells if TAG + claim in c["metadata"].get("tags", [])]
    return list(dict.fromkeys(bound for source in sources for bound in bounds(source)))


def read_claims(path):
    """Read and check the list of statements."""
    with Path(path).open("rb") as file:
        claims = tomllib.load(file)["claim"]
    for claim in claims:
        wrong = VERDICTS.isdisjoint({claim["verdict"]})
        if wrong or not claim["chapters"]:
            raise ValueError(f"claim {claim['id']} needs a verdict of {VERDICTS} and chapters")
    return claims


def find_problems(claims, cells):
    """List what is wrong: untested claims, unknown tags.

    Parameters
    ----------
    claims : list of dict
        From `read_claims`.
    cells : dict
        Chapter number -> list of ``(claim, anchor, can fail)``, for the chapters of the book.
    """
    known = {claim["id"]: claim for claim in claims}
    problems = []
    for claim in claims:
        for number in claim["chapters"]:
            checks = [can for ident, _, can in cells.get(number, []) if ident == claim["id"]]
            if not any(checks):
                kind = "no cell that asserts" if checks else "no cell tagged"
                problems.append(f"chapter {number:02d} has {kind} {TAG}{claim['id']}")
    for number, found in cells.items():
        for ident, anchor, can_fail in found:
            if ident not in known:
                problems.append(f"chapter {number:02d} #{anchor}: unknown claim {ident}")
            elif not can_fail:
                problems.append(f"chapter {number:02d} #{anchor}: claim {ident} asserts nothing")
    return problems


def summary(claims, troubles):
    """Return the sentence over the ledger: everything is executed, or what stopped halfway."""
    if not troubles:
        return f"All **{len(claims)} statements are executed** in this book."
    pages = ", ".join(f"[](/{doc}.ipynb)" for doc in sorted(troubles))
    return (
        f"On the machine that built these pages a cell failed in {pages}: what is checked from "
        "there on in that chapter **was not executed**. Everything else was."
    )


class ClaimsLedger(SphinxDirective):
    """Write the ledger as a table for each source."""

    required_arguments = 1  # the TOML file, relative to the page

    def run(self):
        """Return the tables."""
        path = Path(self.env.doc2path(self.env.docname)).parent / self.arguments[0]
        claims = read_claims(path)
        docs = chapter_docs(self.env)
        for source in (path, *(self.env.doc2path(doc) for doc in docs.values())):
            self.env.note_dependency(str(source))
        cells = {n: list(tagged_cells(self.env.doc2path(doc))) for n, doc in docs.items()}
        for problem in find_problems(claims, cells):
            LOGGER.warning("claims ledger: %s", problem, location=self.get_location())
        lines = [
            summary(claims, self.env.course_troubles),
            "",
            f"| {' | '.join(HEADER)} |",
            "|---|---|---|---|",
        ]
        lines += [self.row(claim, docs, cells) for claim in claims]
        container = nodes.container(classes=["claims-ledger"])
        self.state.nested_parse([*lines, ""], self.content_offset, container)
        return [container]

    def row(self, claim, docs, cells):
        """Return one statement as a row of a Markdown table."""
        verdict = f"{{verdict}}`{claim['verdict']}`"
        note = f" *{claim['note']}*" if "note" in claim else ""
        numbers = [number for number in claim["chapters"] if number in docs]
        checks = " ".join(self.check(claim["id"], n, docs, cells) for n in numbers)
        ident = f"{{claim}}`{claim['id']}`"
        return f"| {ident} | {claim['statement']}{note} | {verdict} | {checks} |"

    def check(self, ident, number, docs, cells):
        """Link to the cells of one chapter that check the statement."""
        anchors = [anchor for found, anchor, _ in cells[number] if found == ident]
        page = "/" + docs[number] + ".ipynb"
        links = [
            f"{{check-link}}`{i} <{page}#{anchor}>`" for i, anchor in enumerate(anchors, start=1)
        ]
        word = "cell" if len(links) == 1 else "cells"
        held = held_to(self.env.doc2path(docs[number]), ident)
        whole = [bound.translate(UNBROKEN) for bound in held]
        within = f" {{claim-bounds}}`{', '.join(whole)}`" if held else ""
        return f"{{claim-check}}`chapter {number:02d}, {word}` " + " ".join(links) + within


HEADER = ("Id", "Statement", "Verdict", "Checked by")


def chapter_docs(env):
    """Map chapter numbers to the documents of the chapters in the table of contents."""
    docs = {}
    for doc in sorted(env.found_docs):
        match = re.fullmatch(r"chapters/(\d\d)_\w+", doc)
        if match:
            docs[int(match[1])] = doc
    return docs


def verdict_role(name, rawtext, text, lineno, inliner, options=None, content=()):
    """Write a verdict as a coloured label."""
    classes = ["verdict", "verdict-" + text.replace(" ", "-")]
    return [nodes.inline(rawtext, text, classes=classes)], []


def claim_check_role(name, rawtext, text, lineno, inliner, options=None, content=()):
    """Write where a statement is checked, on a line of its own."""
    return [nodes.inline(rawtext, text, classes=["claim-check"])], []


def claim_bounds_role(name, rawtext, text, lineno, inliner, options=None, content=()):
    """Write what the cells hold their results to, on a line of its own."""
    return [nodes.inline(rawtext, text, classes=["claim-bounds"])], []


def claim_role(name, rawtext, text, lineno, inliner, options=None, content=()):
    """Write a statement's id as the target of links to it."""
    return [nodes.inline(rawtext, text, classes=["claim-id"], ids=[f"{TAG}{text}"])], []


class CheckLink:
    """Role that links to a cell of a page: ``{check-link}`text </page.ipynb#cell-id>```."""

    def __call__(self, name, rawtext, text, lineno, inliner, options=None, content=()):
        """Return the link."""
        label, target = re.fullmatch(r"(.+) <(.+)>", text).groups()
        page, anchor = target.split("#")
        env = inliner.document.settings.env
        docname = page.removeprefix("/").removesuffix(".ipynb")
        uri = env.app.builder.get_relative_uri(env.docname, docname) + f"#{anchor}"
        return [nodes.reference(rawtext, label, refuri=uri, internal=True)], []


def anchor_cells(app, doctree):
    """Give every code cell of a chapter its id as an anchor, and its claims a label."""
    source = Path(app.env.doc2path(app.env.docname))
    if source.suffix != ".ipynb":
        return
    cells = json.loads(source.read_text(encoding="utf8"))["cells"]
    ledger = app.builder.get_relative_uri(app.env.docname, "book/claims")
    for node in doctree.findall(nodes.container):
        if node.get("nb_element") != "cell_code":
            continue
        cell = cells[node["cell_index"]]
        node["ids"].append(cell_anchor(cell))
        names = [t.removeprefix(TAG) for t in cell["metadata"].get("tags", []) if TAG in t]
        if names:
            node.append(claim_label(names, ledger))


def claim_label(names, ledger):
    """Return the line under a cell that says which statements it checks."""
    label = nodes.paragraph("", "checks ", classes=["claim-label"])
    for name in names:
        label += nodes.reference("", name, refuri=f"{ledger}#{TAG}{name}", internal=True)
        label += nodes.Text(" ")
    return label


def setup(app):
    """Register with Sphinx."""
    app.add_directive("claims-ledger", ClaimsLedger)
    app.add_role("verdict", verdict_role)
    app.add_role("claim", claim_role)
    app.add_role("claim-check", claim_check_role)
    app.add_role("claim-bounds", claim_bounds_role)
    app.add_role("check-link", CheckLink())
    app.connect("doctree-read", anchor_cells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
