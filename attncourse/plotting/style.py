"""The house style: colours, sizes, SVG, and the frame of a figure.

The one idea: a figure must read on a white page and on a dark one, printed in grey, and without
its colours. So the background is transparent, text and axes are one mid grey, every colour
comes with a marker and a dash of its own, and lines carry their names instead of a legend.
"""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

try:
    import matplotlib as mpl
    import matplotlib.pyplot as plt
    from cycler import cycler
    from matplotlib import ticker
except ImportError as error:
    raise ImportError(
        "attncourse.plotting draws with matplotlib, which is not installed; "
        "get it with: python -m pip install 'attncourse[plot]'"
    ) from error

BLUE, VERMILLION, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#797979"
QUERY, KEY, VALUE, OUT = BLUE, VERMILLION, GREEN, PURPLE
COLORS = (BLUE, VERMILLION, GREEN, PURPLE)
MARKERS = ("o", "s", "^", "D")
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
WIDTH, HEIGHT = 6.0, 3.5


def use_style() -> None:
    """Set the house style for every figure drawn from now on.

    Notes
    -----
    In IPython the figures become SVG without a date, so that the same cell gives the same bytes.
    """
    grey = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    clear = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
    settings: Any = mpl.rcParams
    settings.update(dict.fromkeys(grey, GREY) | dict.fromkeys(clear, "none"))
    settings.update(
        {
            "figure.figsize": (WIDTH, HEIGHT),
            "figure.constrained_layout.use": True,
            "font.size": 12,
            "axes.titlesize": 12,
            "figure.titlesize": 13,
            "axes.titlelocation": "left",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": cycler(color=COLORS, marker=MARKERS, linestyle=DASHES),
            "axes.xmargin": 0.02,
            "lines.linewidth": 2.0,
            "lines.markersize": 6,
            "hatch.color": GREY,
            "hatch.linewidth": 0.8,
            "svg.fonttype": "path",
            "svg.hashsalt": "attncourse",
        }
    )
    _draw_svg_in_notebooks()


def _draw_svg_in_notebooks() -> None:
    """Ask IPython's inline backend, where there is one, for dateless SVG."""
    try:
        from IPython import get_ipython
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:
        return
    if get_ipython() is not None:
        set_matplotlib_formats("svg", bbox_inches=None, metadata={"Date": None})


def panels(columns: int, *, title: str, width: float = WIDTH, height: float = HEIGHT) -> Any:
    """Open one figure with `columns` drawings side by side and return its axes.

    Parameters
    ----------
    columns : int
        How many axes, at least 1.
    title : str
        The message of the whole figure.
    width, height : float
        Size in inches; at most 6.0 x 3.5 keeps the text readable on a page.

    Returns
    -------
    ndarray of matplotlib Axes, shape (columns,)
        Pass each one as `ax=` to a function of this module.
    """
    figure, axes = plt.subplots(1, columns, figsize=(width, height), squeeze=False)
    _name_figure(figure, title)
    return axes[0]


def _name_figure(figure: Any, title: str) -> None:
    """Write the message above the figure, from its left edge, in as many lines as it needs."""
    text = textwrap.fill(title, int(figure.get_figwidth() * 9))
    figure.suptitle(text, x=0.01, ha="left", fontweight="bold")


def open_axes(ax: Any, title: str) -> Any:
    """Give the caller's axes their title, or open a new figure with it."""
    if ax is None:
        return panels(1, title=title)[0]
    ax.set_title(title)
    return ax


def number_heights(ax: Any) -> None:
    """Write numbers at 1, 2 and 5 on a logarithmic axis that spans less than two decades."""
    low, high = ax.get_ylim()
    if ax.get_yscale() == "log" and high < 100 * low:
        ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.yaxis.set_minor_formatter(ticker.NullFormatter())


def label_ends(ax: Any, ends: list[tuple[str, float, str]]) -> None:
    """Write names beside the right end of their lines, pushed apart where they would touch."""
    named = [(name, height, color) for name, height, color in ends if name and np.isfinite(height)]
    to_axes = ax.transData + ax.transAxes.inverted()
    x_end = ax.get_xlim()[1]
    spots = sorted((to_axes.transform((x_end, h))[1], name, color) for name, h, color in named)
    gap, lowest = 0.11, -np.inf
    for spot, name, color in spots:
        lowest = max(spot, lowest + gap * (1 + name.count("\n")))
        ax.annotate(
            name,
            (1.0, lowest),
            xycoords="axes fraction",
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=color,
            fontweight="bold",
            annotation_clip=False,
        )
