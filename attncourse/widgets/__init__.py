"""Figures that react in a saved page, in Jupyter and in Colab.

The one idea: Python computes and stores the numbers, one JavaScript file without imports shows
them as the reader moves a control. Without a kernel the saved state is enough, so a figure also
reacts in the published book. Every text is a label in the state, so that a translation can
replace it. Needs the `widgets` extra.
"""

try:
    import anywidget  # noqa: F401
    import traitlets  # noqa: F401
except ImportError as error:
    raise ImportError(
        "attncourse.widgets needs anywidget, which is not installed; "
        "get it with: python -m pip install 'attncourse[widgets]'"
    ) from error

from attncourse.widgets.explorer import AttentionExplorer
from attncourse.widgets.heads import HeadBrowser
from attncourse.widgets.player import TilePlayer

__all__ = ["AttentionExplorer", "HeadBrowser", "TilePlayer"]
