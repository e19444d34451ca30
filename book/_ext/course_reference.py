"""Let the API page be written also where Triton cannot be installed: macOS and Windows.

The kernels' docstrings do not need Triton, their modules do. Where it is missing, autodoc puts
a stand-in in its place, which the modules take for the native one.
"""

import importlib.util
import os


def stand_in(app, config):
    """Ask autodoc for the stand-in, unless Triton is installed."""
    if importlib.util.find_spec("triton") is None:
        os.environ["TRITON_INTERPRET"] = "0"
        config.autodoc_mock_imports = [*config.autodoc_mock_imports, "triton"]


def setup(app):
    """Register with Sphinx."""
    app.connect("config-inited", stand_in, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
