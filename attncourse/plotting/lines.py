"""Figures whose height is a number: lines, bars, histograms and points in a plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attncourse.plotting.style import (
    BLUE,
    COLORS,
    DASHES,
    GREY,
    MARKERS,
    label_ends,
    number_heights,
    open_axes,
)

# A name on a histogram is about as long as one share of the figure's width in so many.
NAME_SHARE = 4


def line(
    x_values: Any,
    y_values: Any,
    *,
    x: str,
    y: str,
    title: str,
    log_x: bool = False,
    log_y: bool = False,
    reference: tuple[str, Any] | None = None,
    ax: Any = None,
) -> None:
    """Draw one or several lines, each with its name at its right end.

    Parameters
    ----------
    x_values : array_like, shape (n,)
        Shared by all lines.
    y_values : array_like, or dict of str to array_like
        Shape (n,) for one line; shape (runs, n) draws the mean and a band from the smallest to
        the largest run. A dict names the lines (at most 4).
    x, y : str
        Axis labels, with units.
    title : str
        The message of the figure.
    log_x, log_y : bool
        Logarithmic axes.
    reference : tuple of (str, float or array_like), optional
        A grey dotted line to compare with: its name, and one height or n heights.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    """
    x_values = np.asarray(x_values)
    named = y_values if isinstance(y_values, dict) else {"": y_values}
    if len(named) > len(COLORS):
        raise ValueError(f"{len(named)} lines were given; at most {len(COLORS)} stay readable")
    ax = open_axes(ax, title)
    ax.set(xlabel=x, ylabel=y, xscale="log" if log_x else "linear")
    ax.set_yscale("log" if log_y else "linear")
    ends = []
    for (name, heights), color in zip(named.items(), COLORS, strict=False):
        ends.append((name, _one_line(ax, x_values, heights, name), color))
    if reference is not None:
        heights = np.broadcast_to(np.asarray(reference[1], dtype=float), x_values.shape)
        ax.plot(x_values, heights, color=GREY, linestyle=":", marker="", zorder=1)
        ends.append((reference[0], heights[-1], GREY))
    if log_x and len(x_values) <= 8:
        ax.set_xticks(x_values, [f"{value:g}" for value in x_values])
        ax.minorticks_off()
    number_heights(ax)
    label_ends(ax, ends)


def _one_line(ax: Any, x_values: np.ndarray, heights: Any, name: str) -> float:
    """Draw one line, with a band if there are several runs; return its last height."""
    heights = np.asarray(heights, dtype=float)
    if heights.shape[-1:] != x_values.shape or heights.ndim > 2:
        raise ValueError(
            f"line {name!r} has shape {heights.shape}, x_values has {x_values.shape}: "
            "wanted one height for each x, or (runs, n)"
        )
    middle = heights if heights.ndim == 1 else heights.mean(axis=0)  # (n,)
    every = max(1, len(x_values) // 10)
    (drawn,) = ax.plot(x_values, middle, markevery=every)
    if heights.ndim == 2:
        low, high = heights.min(axis=0), heights.max(axis=0)
        ax.fill_between(x_values, low, high, color=drawn.get_color(), alpha=0.25, linewidth=0)
    finite = middle[np.isfinite(middle)]
    return float(finite[-1]) if finite.size else float("nan")


def bars(
    values: dict[str, Any],
    *,
    y: str,
    title: str,
    reference: tuple[str, float] | None = None,
    log_y: bool = False,
    ax: Any = None,
) -> None:
    """Draw one bar a name, with its number at its end.

    A thin line marks 0 when a bar is negative.

    Parameters
    ----------
    values : dict of str to float or array_like
        Several numbers for one name give a bar at their mean and a whisker from the smallest to
        the largest.
    y : str
        Axis label, with its unit.
    title : str
        The message of the figure.
    reference : tuple of (str, float), optional
        A grey dotted line to compare with: its name and height.
    log_y : bool
        Logarithmic axis.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    """
    ax = open_axes(ax, title)
    runs = [np.atleast_1d(np.asarray(value, dtype=float)) for value in values.values()]
    heights = np.array([run.mean() for run in runs])
    ends = [heights - [run.min() for run in runs], [run.max() for run in runs] - heights]
    whisker = ends if any(run.size > 1 for run in runs) else None
    how = {"ecolor": GREY, "capsize": 5}
    drawn = ax.bar(list(values), heights, color=BLUE, width=0.6, yerr=whisker, error_kw=how)
    numbers = [f"{height:.3g}".replace("-", "\N{MINUS SIGN}", 1) for height in heights]
    ax.bar_label(drawn, numbers, padding=4)
    if (heights < 0).any():
        ax.axhline(0, color=GREY, linewidth=0.8)
    ax.set(ylabel=y, yscale="log" if log_y else "linear")
    ax.margins(y=0.15)
    number_heights(ax)
    if reference is not None:
        ax.axhline(reference[1], color=GREY, linestyle=":")
        label_ends(ax, [(reference[0], reference[1], GREY)])


def histogram(
    samples: dict[str, Any], *, x: str, title: str, bins: Any = 60, ax: Any = None
) -> None:
    """Draw the outlines of up to four distributions over the same bins.

    Parameters
    ----------
    samples : dict of str to array_like
        The numbers to count, by name.
    x, title : str
        What the numbers are, with their unit; the message of the figure.
    bins : int or sequence of float
        Their number, or their edges.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    """
    if len(samples) > len(COLORS):
        raise ValueError(f"{len(samples)} samples were given; at most {len(COLORS)} stay readable")
    ax = open_axes(ax, title)
    everything = np.concatenate([np.ravel(sample) for sample in samples.values()])
    edges = np.histogram_bin_edges(everything, bins)
    heights = [
        np.histogram(np.ravel(sample), edges, density=True)[0] for sample in samples.values()
    ]
    for name, density, color, dash in zip(samples, heights, COLORS, DASHES, strict=False):
        ax.stairs(density, edges, color=color, linestyle=dash, linewidth=2)
        at, room = _clearest_bin(density, heights), len(density) // NAME_SHARE
        spot = ((edges[at] + edges[at + 1]) / 2, density[at : at + room + 1].max())
        ax.annotate(name, spot, (6, 5), textcoords="offset points", color=color, fontweight="bold")
    ax.set(xlabel=x, ylabel="share per unit")
    ax.margins(y=0.12)


def _clearest_bin(density: np.ndarray, every: list[np.ndarray]) -> int:
    """Return the bin, right of the middle if it can be, where a name stands clear of the others."""
    others = [other for other in every if other is not density] or [np.zeros_like(density)]
    tallest = np.pad(np.max(others, axis=0), (0, room := len(density) // NAME_SHARE))
    above = np.lib.stride_tricks.sliding_window_view(tallest, room + 1).max(axis=1)
    lead = density - above  # a name reaches over the next quarter of the figure
    middle = int(np.searchsorted(density.cumsum(), density.sum() / 2))
    first = middle if lead[middle:].max() > 0 else 0
    return first + int(lead[first:].argmax())


def points(
    groups: dict[str, Any],
    *,
    x: str,
    y: str,
    title: str,
    outline: str | None = None,
    colors: Sequence[str] = COLORS,
    ax: Any = None,
) -> None:
    """Draw named groups of points in a plane, on equal axes.

    Parameters
    ----------
    groups : dict of str to array_like, shape (n, 2)
        At most 4 groups; each gets a colour and a marker, and its name beside its highest point.
    x, y, title : str
        Axis labels; the message of the figure.
    outline : str, optional
        Name of the group whose points are joined, in order, to a closed grey outline.
    colors : sequence of str, optional
        One for each group, where the groups have a role, such as VALUE and OUT.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    """
    if len(groups) > len(COLORS):
        raise ValueError(f"{len(groups)} groups were given; at most {len(COLORS)} stay readable")
    ax = open_axes(ax, title)
    for (name, spots), color, marker in zip(groups.items(), colors, MARKERS, strict=False):
        spots = np.asarray(spots, dtype=float)
        if spots.ndim != 2 or spots.shape[1] != 2:
            raise ValueError(f"group {name!r} must have shape (n, 2), got {spots.shape}")
        if name == outline:
            ax.fill(*spots.T, facecolor="none", edgecolor=GREY, linestyle=":", linewidth=1.5)
        ax.scatter(*spots.T, color=color, marker=marker, s=50, zorder=3)
        top = spots[spots[:, 1].argmax()]
        ax.annotate(name, top, (7, 5), textcoords="offset points", color=color, fontweight="bold")
    ax.set(xlabel=x, ylabel=y, aspect="equal")
    ax.margins(0.12)
