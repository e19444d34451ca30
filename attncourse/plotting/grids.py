"""Figures of a matrix: attention weights, signed numbers and masks, one square a cell."""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse.plotting.style import BLUE, GREY, mpl, open_axes

NAMES_UP_TO = 8  # more rows or columns than this show only every second, third ... number
NUMBER_NEEDS = 0.42  # inches of a cell that can hold its number


def weights(
    weights: Any,
    *,
    title: str,
    queries: Any = None,
    keys: Any = None,
    allowed: Any = None,
    ax: Any = None,
) -> None:
    """Draw attention weights: keys across, queries down, one fixed scale from 0 to 1.

    Parameters
    ----------
    weights : array_like, shape (L, S)
        Numbers from 0 to 1.
    title : str
        The message of the figure.
    queries, keys : sequence of str, optional
        Names of the L rows and S columns; numbers if not given.
    allowed : array_like of bool, shape (L, S), optional
        Cells that are False were hidden from the query: they are hatched, not coloured.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    """
    matrix = _matrix(weights, "weights")
    if np.nanmin(matrix) < -1e-6 or np.nanmax(matrix) > 1 + 1e-6:
        raise ValueError(
            f"weights lie between 0 and 1, these reach from {np.nanmin(matrix):.3g} to "
            f"{np.nanmax(matrix):.3g}: scores and other signed numbers go to plotting.signed"
        )
    _grid(
        matrix,
        colors={"cmap": "cividis", "vmin": 0.0, "vmax": 1.0},
        label="weight",
        title=title,
        rows=queries,
        columns=keys,
        allowed=allowed,
        ax=ax,
    )


def signed(
    matrix: Any,
    *,
    title: str,
    label: str = "value",
    rows: Any = None,
    columns: Any = None,
    x: str = "key",
    y: str = "query",
    limit: float | None = None,
    allowed: Any = None,
    ax: Any = None,
) -> None:
    """Draw numbers of both signs: blue below 0, white at 0, red above.

    Parameters
    ----------
    matrix : array_like, shape (rows, columns)
        Finite numbers (hidden cells may be anything).
    title, label : str
        The message of the figure; what one number is, with its unit.
    rows, columns : sequence of str, optional
        Their names; numbers if not given.
    x, y : str
        What the columns and the rows are.
    limit : float, optional
        The colours reach from -limit to limit; by default the largest absolute value.
    allowed : array_like of bool, optional
        Cells that are False are hatched, not coloured.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    """
    values = _matrix(matrix, "matrix")
    shown = values if allowed is None else values[np.asarray(allowed, dtype=bool)]
    limit = limit or float(np.abs(shown).max(initial=0.0)) or 1.0
    _grid(
        values,
        colors={"cmap": "RdBu_r", "vmin": -limit, "vmax": limit},
        label=label,
        title=title,
        rows=rows,
        columns=columns,
        allowed=allowed,
        ax=ax,
        x=x,
        y=y,
        shared_scale=False,
    )


def mask(
    allowed: Any, *, title: str, queries: Any = None, keys: Any = None, ax: Any = None
) -> None:
    """Draw a boolean mask: filled where the query may attend, hatched where it may not.

    Parameters
    ----------
    allowed : array_like of bool, shape (L, S)
        True = attend.
    title : str
        The message of the figure.
    queries, keys : sequence of str, optional
        Names of the rows and columns; numbers if not given.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    """
    see = np.asarray(allowed)
    if see.dtype != bool:
        raise TypeError(f"a mask is boolean, True = attend; this one has dtype {see.dtype}")
    _grid(
        _matrix(see, "allowed"),
        colors={"cmap": mpl.colors.ListedColormap([BLUE]), "vmin": 0.0, "vmax": 1.0},
        label="",
        title=title,
        rows=queries,
        columns=keys,
        allowed=see,
        ax=ax,
    )


def _matrix(values: Any, name: str) -> np.ndarray:
    """Return `values` as a float matrix, or say what came instead."""
    matrix = np.asarray(values, dtype=float)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"{name} must be one matrix (rows, columns), got shape {matrix.shape}")
    return matrix


def _grid(
    matrix: np.ndarray,
    *,
    colors: dict[str, Any],
    label: str,
    title: str,
    rows: Any,
    columns: Any,
    allowed: Any,
    ax: Any,
    x: str = "key",
    y: str = "query",
    shared_scale: bool = True,
) -> None:
    """Draw a matrix as square cells with names, numbers where they fit, and a colour scale."""
    see = np.ones(matrix.shape, dtype=bool) if allowed is None else np.asarray(allowed, dtype=bool)
    if see.shape != matrix.shape:
        raise ValueError(f"allowed has shape {see.shape}, the matrix has {matrix.shape}")
    ax = open_axes(ax, title)
    seamless = {"edgecolors": "face", "linewidth": 0.4, "rasterized": matrix.size > 4096}
    mesh = ax.pcolormesh(np.ma.masked_array(matrix, ~see), **seamless, **colors)
    if not see.all():
        ax.add_patch(_hatch(~see))
    ax.set(aspect="equal", xlabel=x, ylabel=y)
    ax.invert_yaxis()
    ax.spines[:].set_visible(False)
    _name_cells(ax.xaxis, columns, matrix.shape[1])
    _name_cells(ax.yaxis, rows, matrix.shape[0])
    if label and (not shared_scale or ax.get_subplotspec().is_last_col()):
        bar = ax.figure.colorbar(mesh, ax=ax, label=label)
        bar.outline.set_visible(False)
    if label and _cell_size(ax, matrix.shape) >= NUMBER_NEEDS:
        _write_numbers(ax, mesh, matrix, see)


def _hatch(hidden: np.ndarray) -> Any:
    """Return one patch that hatches every hidden cell."""
    corners = np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)], dtype=float)
    squares = [mpl.path.Path(np.add(corners, (column, row))) for row, column in np.argwhere(hidden)]
    whole = mpl.path.Path.make_compound_path(*squares)
    return mpl.patches.PathPatch(whole, facecolor="none", edgecolor=GREY, linewidth=0, hatch="////")


def _name_cells(axis: Any, names: Any, count: int) -> None:
    """Write one name in the middle of each row or column, or a few numbers if there are none."""
    if names is None:
        step = max(1, -(-count // NAMES_UP_TO))
        axis.set_ticks(np.arange(0, count, step) + 0.5, [str(i) for i in range(0, count, step)])
    else:
        names = [str(name) for name in names]
        if len(names) != count:
            raise ValueError(f"{len(names)} names were given for {count} rows or columns")
        turn = axis.axis_name == "x" and max(map(len, names)) * count > 22
        axis.set_ticks(np.arange(count) + 0.5, names, rotation=45 if turn else 0)
    axis.set_tick_params(length=0)


def _cell_size(ax: Any, shape: tuple[int, ...]) -> float:
    """Return about how many inches one cell is wide and high."""
    box, figure = ax.get_subplotspec().get_position(ax.figure), ax.figure
    width, height = box.width * figure.get_figwidth(), box.height * figure.get_figheight()
    return min(width / (shape[1] + 1), height / shape[0])


def _write_numbers(ax: Any, mesh: Any, matrix: np.ndarray, see: np.ndarray) -> None:
    """Write each number into its cell, dark on light colours and light on dark ones."""
    for row, column in np.argwhere(see & np.isfinite(matrix)):
        value = matrix[row, column]
        red, green, blue, _ = mesh.cmap(mesh.norm(value))
        light = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 > 0.18
        text = f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"
        color = "black" if light else "white"
        ax.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=color, fontsize=12)
