"""House figures: a few functions that draw every plot of the course in one style.

Importing this package sets the style. It needs the `plot` extra and is never imported by
`import attncourse`. The functions return None, so a cell may end with one of them; pass `ax=`
(from `panels`) to draw several side by side.

`style` holds the colours and the frame of a figure, `lines` the figures whose height is a
number, `grids` the figures of a matrix, `pictures` what the camera saw, `roof` what a
machine can do. `mechanisms` draws how something works, with the primitives of `drawings`; these
return a drawing, which a notebook shows.
"""

from attncourse.plotting import mechanisms
from attncourse.plotting.grids import mask, signed, weights
from attncourse.plotting.lines import bars, histogram, line, points
from attncourse.plotting.pictures import picture
from attncourse.plotting.roof import roofline
from attncourse.plotting.style import (
    BLUE,
    GREEN,
    GREY,
    KEY,
    OUT,
    PURPLE,
    QUERY,
    VALUE,
    VERMILLION,
    panels,
    use_style,
)

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "KEY",
    "OUT",
    "PURPLE",
    "QUERY",
    "VALUE",
    "VERMILLION",
    "bars",
    "histogram",
    "line",
    "mask",
    "mechanisms",
    "panels",
    "picture",
    "points",
    "roofline",
    "signed",
    "use_style",
    "weights",
]

use_style()
