"""Primitives for drawings of a mechanism: boxes, arrows, rows of cells and labels, as SVG.

The one idea: a drawing must read in both themes and on a phone. So it is text in the page, not an
image: ink is the page's own text colour, the four roles take the page's colours for them, and at
most 400 units of width keep letters of 14 units readable where a page is 390 pixels wide.
Left out: plots, whose heights are numbers (`lines`), and what is drawn (`mechanisms`).
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import hypot

INK = "currentColor"
QUERY, KEY, VALUE, OUT = (
    f"var(--{name}-text, {color})"
    for name, color in (("q", "#0072B2"), ("k", "#D55E00"), ("v", "#009E73"), ("o", "#CC79A7"))
)
WIDEST = 400
SIZE, LETTER = 14, 0.6  # height of the letters, and their mean width as a part of it
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"
_TIP = 7.0


class Drawing:
    """A figure in inline SVG, built call by call and shown by a notebook.

    Parameters
    ----------
    width, height : float
        Size in units; the width is at most 400.
    alt : str
        What the figure shows, for readers who do not see it: at least 25 characters.

    Raises
    ------
    ValueError
        For a wider drawing, or a description that says too little.
    """

    def __init__(self, width: float, height: float, alt: str) -> None:
        if not 0 < width <= WIDEST:
            raise ValueError(f"width must be above 0 and at most {WIDEST}, got {width}")
        if len(alt) < 25:
            raise ValueError(f"alt must describe the drawing in 25 characters or more, got {alt!r}")
        self.width, self.height, self.alt = width, height, alt
        self.parts: list[str] = []

    def label(
        self,
        x: float,
        y: float,
        text: str,
        *,
        color: str = INK,
        anchor: str = "middle",
        bold: bool = False,
        room: float | None = None,
    ) -> None:
        """Write text around the height y.

        Parameters
        ----------
        x, y : float
            Where the text is anchored; y is its middle.
        text : str
            One line.
        color : str
            A colour of SVG.
        anchor : {"start", "middle", "end"}
            Which end of the text stands at x.
        bold : bool
            Whether it is set in bold letters.
        room : float, optional
            Width that the text must fit into; what the drawing leaves by default.

        Raises
        ------
        ValueError
            If the text is wider than its room, going by its number of letters.
        """
        needed = LETTER * SIZE * len(text)
        beside = {"start": self.width - x, "middle": 2 * min(x, self.width - x), "end": x}[anchor]
        if needed > (beside if room is None else room):
            raise ValueError(f"{text!r} is {needed:.0f} wide, its room {room or beside:.0f}")
        weight = ' font-weight="700"' if bold else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" dominant-baseline="central"'
            f' fill="{color}"{weight}>{escape(text)}</text>'
        )

    def box(
        self, x: float, y: float, width: float, height: float, *lines: str, color: str = INK
    ) -> None:
        """Draw a box with lines of text in its middle; the first line is bold if there are two."""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5"'
            f' fill="{color}" fill-opacity="0.1" stroke="{color}" stroke-width="1.5"/>'
        )
        for i, line in enumerate(lines):
            middle = y + height / 2 + (i - (len(lines) - 1) / 2) * 1.25 * SIZE
            bold = len(lines) > 1 and i == 0
            self.label(x + width / 2, middle, line, color=color, bold=bold, room=width)

    def cells(
        self,
        x: float,
        y: float,
        numbers: Sequence[float],
        *,
        size: float = 14,
        color: str = INK,
        down: bool = True,
    ) -> None:
        """Draw one square for each number from 0 to 1, the fuller the larger."""
        for i, number in enumerate(numbers):
            left, top = (x, y + i * size) if down else (x + i * size, y)
            self.parts.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{size:.1f}" height="{size:.1f}"'
                f' fill="{color}" fill-opacity="{0.85 * float(number):.2f}" stroke="{color}"'
                ' stroke-width="0.8"/>'
            )

    def arrow(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        *,
        color: str = INK,
        width: float = 1.5,
    ) -> None:
        """Draw an arrow between two points; its head grows a little with its width."""
        (x, y), (to_x, to_y) = start, end
        length = hypot(to_x - x, to_y - y)
        along, tip = ((to_x - x) / length, (to_y - y) / length), _TIP + width
        neck = (to_x - tip * along[0], to_y - tip * along[1])
        side = (-along[1] * tip / 2, along[0] * tip / 2)
        self.parts.append(
            f'<path d="M{x:.1f} {y:.1f}L{neck[0]:.1f} {neck[1]:.1f}" fill="none" stroke="{color}"'
            f' stroke-width="{width:.1f}"/>'
            f'<path d="M{to_x:.1f} {to_y:.1f}L{neck[0] + side[0]:.1f} {neck[1] + side[1]:.1f}'
            f'L{neck[0] - side[0]:.1f} {neck[1] - side[1]:.1f}Z" fill="{color}"/>'
        )

    def svg(self) -> str:
        """Return the drawing as one SVG element."""
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img"'
            f' aria-label="{escape(self.alt)}" font-family="{_FONT}" font-size="{SIZE}"'
            f' style="display: block; width: 100%; max-width: {1.3 * self.width:.0f}px;'
            f' margin: 0 auto">{"".join(self.parts)}</svg>'
        )

    def _repr_html_(self) -> str:
        return f'<figure class="drawn-figure">{self.svg()}</figure>'
