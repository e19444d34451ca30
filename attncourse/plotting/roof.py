"""The roofline: what a machine can do at most, and how near some calls come."""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse.plotting.style import COLORS, GREY, MARKERS, open_axes


def roofline(
    calls: dict[str, tuple[float, float]],
    *,
    peak: float,
    bandwidth: float,
    title: str,
    ax: Any = None,
) -> None:
    """Draw the ceiling of a machine, and calls as named points below it.

    Parameters
    ----------
    calls : dict of str to (float, float)
        For each call its FLOPs for each byte moved, and the FLOPs a second it reached. At most 4.
    peak : float
        FLOPs a second of the machine where nothing waits for memory.
    bandwidth : float
        Bytes a second between memory and processor.
    title : str
        The message of the figure.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.

    Notes
    -----
    The ceiling is min(peak, bandwidth · FLOPs a byte); it bends at peak / bandwidth.
    **Source:** Williams, Waterman and Patterson 2009, Communications of the ACM 52(4).
    """
    if not calls or len(calls) > len(COLORS):
        raise ValueError(f"{len(calls)} calls were given; 1 to {len(COLORS)} stay readable")
    if not (peak > 0 and bandwidth > 0):
        raise ValueError(f"peak and bandwidth must be positive, got {peak} and {bandwidth}")
    ax = open_axes(ax, title)
    bend = peak / bandwidth
    intensities = np.array([intensity for intensity, _ in calls.values()])
    reach = np.geomspace(min(intensities.min(), bend) / 3, max(intensities.max(), bend) * 3, 50)
    reach = np.sort(np.append(reach, bend))
    roof = np.minimum(peak, bandwidth * reach)
    ax.plot(reach, roof / 1e9, color=GREY, linestyle="-", marker="", zorder=1)
    for (name, (intensity, reached)), color, marker in zip(
        calls.items(), COLORS, MARKERS, strict=False
    ):
        ax.plot(
            [intensity], [reached / 1e9], color=color, marker=marker, linestyle="", markersize=9
        )
        right = intensity > np.sqrt(reach[0] * reach[-1])
        offset = {"xytext": (-9 if right else 9, -4), "ha": "right" if right else "left"}
        ax.annotate(
            name,
            (intensity, reached / 1e9),
            textcoords="offset points",
            color=color,
            fontweight="bold",
            va="top",
            **offset,
        )
    ax.set(xscale="log", yscale="log", xlabel="FLOPs for each byte", ylabel="GFLOP a second")
    ax.margins(y=0.25)
