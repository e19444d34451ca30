"""Say on a chapter's page which cells were not executed on this machine, and why.

A cell that failed is followed by what was expected, what came and how to report it, and each cell
after it says that it was not run. A cell that needs what is missing here (`course_needs`) says that
its result is the stored one. What failed is read from the execution cache.
"""

from html import escape
from pathlib import Path
from urllib.parse import urlencode

import nbformat
from course_execution import cache_folder
from course_needs import NEEDS, unmet
from docutils import nodes
from jupyter_cache import get_cache

LEDGER = ("book/claims",)  # it says which checks were not executed
AFTER = "Not run: a cell above failed on this machine."
NEED = (
    "Not run here: this cell needs {need}, which is missing on this machine. "
    "What it shows was stored by a machine that has it."
)
NEED_WITHOUT_RESULT = (
    "Not run here: this cell needs {need}, which is missing on this machine. It shows nothing."
)
NOTE = """\
<div class="admonition cell-trouble" id="trouble"><p class="admonition-title">\
This cell failed on the machine that built these pages</p>
<p><strong>Expected:</strong></p><pre>{expected}</pre>
<p><strong>Got:</strong></p><pre>{came}</pre>
<p>{why} The other chapters do not depend on this cell.</p>
<p>To report it, <a href="{link}">open an issue</a> at {issues} and paste this:</p>
<pre>{report}</pre>
{details}</div>"""
DETAILS = "<details><summary>The whole error</summary><pre>{traceback}</pre></details>"
NOTICE = (
    '<p class="cell-skipped">A cell of this chapter failed on the machine that built these pages, '
    'and what follows it was not run: <a href="#trouble">what was expected, what came, and how to '
    "report it</a>.</p>"
)


def read_troubles(root, paths):
    """Return ``{path: failure}`` of the notebooks that the cache holds as failed."""
    folder, troubles = cache_folder(root), {}
    if not folder.exists():
        return troubles
    cache = get_cache(str(folder))
    for path in paths:
        try:
            record = cache.match_cache_notebook(nbformat.read(path, as_version=4))
        except KeyError:
            continue
        if record.data.get("trouble"):
            troubles[path] = record.data["trouble"]
    cache.db.dispose()
    return troubles


def find_troubles(app, env, added, changed, removed):
    """Look up which chapters failed; have the pages written anew whose state changed."""
    docs = sorted(doc for doc in env.found_docs if doc.startswith("chapters/"))
    paths = {Path(env.doc2path(doc)): doc for doc in docs}
    found = {paths[path]: each for path, each in read_troubles(app.srcdir, paths).items()}
    before, env.course_troubles = getattr(env, "course_troubles", {}), found
    differ = [doc for doc in {*before, *found} if before.get(doc) != found.get(doc)]
    return [*differ, *(doc for doc in LEDGER if differ and doc in env.found_docs)]


def report(doc, trouble):
    """Return the text to paste into an issue."""
    return (
        f"{doc}.ipynb, cell {trouble['cell']}\n\nExpected:\n{trouble['expected']}\n\n"
        f"Got:\n{trouble['came']}\n\nMachine:\n{trouble['machine']}\n"
    )


def note(doc, trouble, repository):
    """Return the note beside a cell that failed."""
    title = f"{doc.split('/')[-1]}: cell {trouble['cell']} fails"
    traceback = trouble["traceback"]
    texts = {
        **{name: trouble[name] for name in ("expected", "came", "why")},
        "issues": f"{repository}/issues",
        "report": report(doc, trouble),
        "link": f"{repository}/issues/new?{urlencode({'title': title})}",
    }
    details = DETAILS.format(traceback=escape(traceback)) if traceback else ""
    escaped = {name: escape(text) for name, text in texts.items()}
    return nodes.raw("", NOTE.format(**escaped, details=details), format="html")


def skipped(cell):
    """Return the sentence about a cell whose needs are not met, or nothing."""
    lacking = unmet(cell.metadata.get("tags", []))
    if not lacking:
        return ""
    text = NEED if cell.outputs else NEED_WITHOUT_RESULT
    return text.format(need=" and ".join(NEEDS[name] for name in lacking))


def mark_cells(app, doctree):
    """Put the notes behind the cells that they are about."""
    doc, source = app.env.docname, Path(app.env.doc2path(app.env.docname))
    if not doc.startswith("chapters/"):
        return
    cells = nbformat.read(source, as_version=4).cells
    trouble, failed = app.env.course_troubles.get(doc), None
    if trouble:
        failed = note(doc, trouble, app.course_address.repository)
    for node in list(doctree.findall(nodes.container)):
        if node.get("nb_element") != "cell_code":
            continue
        at = node["cell_index"]
        if trouble and at == trouble["index"]:
            insert_after(node, failed)
        elif text := (AFTER if trouble and at > trouble["index"] else skipped(cells[at])):
            insert_after(node, nodes.paragraph("", text, classes=["cell-skipped"]))
    if trouble:
        lead = nodes.raw("", NOTICE, format="html")
        title = next(doctree.findall(nodes.title))
        # A cell that the page does not show has no place of its own.
        insert_after(title, lead if failed.parent else failed)


def insert_after(node, other):
    """Put a node behind another one."""
    node.parent.insert(node.parent.index(node) + 1, other)


def setup(app):
    """Register with Sphinx."""
    app.connect("env-get-outdated", find_troubles)
    app.connect("doctree-read", mark_cells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
