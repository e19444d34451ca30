"""Figures that are pictures: what the camera saw, cut into patches if asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse.plotting.style import GREY, VERMILLION, mpl, open_axes


def picture(
    image: Any,
    *,
    title: str,
    patch: int | None = None,
    marked: tuple[int, int] | None = None,
    limits: tuple[float, float] | None = None,
    ax: Any = None,
) -> None:
    """Draw a picture, with lines between its patches and a frame around one of them.

    Parameters
    ----------
    image : array_like, shape (3, height, width) or (1, height, width)
        Colours from 0 to 1; a single channel may have any range, and is drawn like ink: large
        numbers are dark.
    title : str
        The message of the figure.
    patch : int, optional
        Side of a patch in pixels; both sides of the picture are multiples of it.
    marked : tuple of (int, int), optional
        Row and column of the patch to frame.
    limits : tuple of (float, float), optional
        What is white and what is black in a single channel; its smallest and its largest number
        by default.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    """
    pixels = np.asarray(image, dtype=float)
    if pixels.ndim != 3 or pixels.shape[0] not in (1, 3):
        raise ValueError(f"image must have shape (3 or 1, height, width), got {pixels.shape}")
    if patch is not None and (pixels.shape[1] % patch or pixels.shape[2] % patch):
        raise ValueError(f"patches of {patch} pixels do not fit into {pixels.shape[1:]}")
    if marked is not None and patch is None:
        raise ValueError("marked names a patch: give patch, its side in pixels")
    ax = open_axes(ax, title)
    height, width = pixels.shape[1:]
    how: dict[str, Any] = {"extent": (0, width, height, 0), "interpolation": "nearest"}
    if len(pixels) == 3:
        ax.imshow(pixels.transpose(1, 2, 0).clip(0, 1), **how)
    else:
        white, black = limits or (None, None)
        ax.imshow(pixels[0], cmap="gray_r", vmin=white, vmax=black, **how)
    ax.set_axis_off()
    if patch is not None:
        _cut(ax, height, width, patch)
    if marked is not None and patch is not None:
        corner = (marked[1] * patch, marked[0] * patch)
        frame = mpl.patches.Rectangle(corner, patch, patch, fill=False)
        frame.set(edgecolor=VERMILLION, linewidth=3)
        ax.add_patch(frame)


def _cut(ax: Any, height: int, width: int, patch: int) -> None:
    """Draw the lines between patches."""
    thin = {"color": GREY, "linewidth": 0.6}
    ax.hlines(np.arange(0, height + 1, patch), 0, width, **thin)
    ax.vlines(np.arange(0, width + 1, patch), 0, height, **thin)
