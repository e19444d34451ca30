"""Write what is generated from the package: the API page and the table of capabilities.

The kernels' docstrings do not need Triton, their modules do. Where it is missing (macOS and
Windows), autodoc puts a stand-in in its place, which the modules take for the native one.
"""

import importlib.util
import os
import re

from docutils import nodes


def stand_in(app, config):
    """Ask autodoc for the stand-in, unless Triton is installed."""
    if importlib.util.find_spec("triton") is None:
        os.environ["TRITON_INTERPRET"] = "0"
        config.autodoc_mock_imports = [*config.autodoc_mock_imports, "triton"]


def straighten_quotes(app, doctree):
    """Undo typographic quotes in the table of capabilities: its entries are code."""
    for table in doctree.findall(nodes.table):
        if "capabilities" in table["classes"]:
            for text in list(table.findall(nodes.Text)):
                text.parent.replace(text, nodes.Text(re.sub("[“”]", '"', text)))


def setup(app):
    """Register with Sphinx."""
    app.connect("doctree-read", straighten_quotes)
    app.connect("config-inited", stand_in, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
