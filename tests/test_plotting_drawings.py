"""The drawings of a mechanism: valid SVG, text that fits, both themes, and what they refuse."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from attncourse.plotting import mechanisms
from attncourse.plotting.drawings import SIZE, Drawing

WORDS = ["The", "bank", "of", "the", "river"]
WEIGHTS = [0.05, 0.425, 0.05, 0.05, 0.425]
ROWS = np.random.default_rng(1).normal(size=(5, 6))
ALT = "Some boxes with letters in a row"
ARRAYS = [ROWS, ROWS[:, :2], ROWS[:, 2:4], ROWS[:, :3]]

DRAWINGS = {
    "average": lambda: mechanisms.weighted_average(WORDS, WEIGHTS, 1),
    "chain": lambda: mechanisms.chain_and_look_up(WORDS),
    "rows": lambda: mechanisms.tokens_to_rows([" " + w for w in WORDS], range(1000, 1005), ROWS),
    "nine": lambda: mechanisms.tokens_to_rows([" the"] * 9, range(900, 909), np.ones((9, 4))),
    "qkv": lambda: mechanisms.query_key_value(*ARRAYS),
}
each_drawing = pytest.mark.parametrize("draw", DRAWINGS.values(), ids=DRAWINGS)


def read(drawing):
    return ElementTree.fromstring(drawing.svg())


def extents(drawing):
    """Return left, right, top and bottom of every text, in a font wider than the page's."""
    found = {}
    for element in read(drawing).iter("text"):
        bold = FontProperties(family="DejaVu Sans", weight=element.get("font-weight", "normal"))
        width = TextPath((0, 0), element.text, size=SIZE, prop=bold).get_extents().width
        x, y = float(element.get("x")), float(element.get("y"))
        left = x - width * {"start": 0, "middle": 0.5, "end": 1}[element.get("text-anchor")]
        found[element.text, x, y] = (left, left + width, y - SIZE / 2, y + SIZE / 2)
    return found


@each_drawing
def test_text_stays_inside_and_texts_do_not_touch(draw):
    drawing = draw()
    placed = extents(drawing)
    assert placed
    for name, (left, right, top, bottom) in placed.items():
        assert 0 <= left <= right <= drawing.width, name
        assert 0 <= top <= bottom <= drawing.height, name
        for other, (left2, right2, top2, bottom2) in placed.items():
            apart = right <= left2 or right2 <= left or bottom <= top2 or bottom2 <= top
            assert other == name or apart, (name, other)


@each_drawing
def test_text_in_a_box_fits_the_box(draw):
    drawing = draw()
    boxes = [
        tuple(float(box.get(name)) for name in ("x", "y", "width", "height"))
        for box in read(drawing).iter("rect")
        if box.get("rx")
    ]
    filled = set()
    for (text, middle, y), (left, right, _, _) in extents(drawing).items():
        for x, top, width, height in boxes:
            if x <= middle <= x + width and top <= y <= top + height:
                assert x <= left <= right <= x + width, text
                filled.add((x, top))
    assert len(filled) == len(boxes), "every box has its text"


@each_drawing
def test_letters_stay_readable_on_a_phone(draw):
    drawing = draw()
    assert SIZE * 310 / drawing.width >= 12, "a page of 390 pixels leaves 310 for a drawing"


@each_drawing
def test_ink_follows_the_page(draw):
    colors = set(re.findall(r'(?:fill|stroke)="([^"]*)"', draw().svg())) - {"none"}
    assert "currentColor" in colors
    assert all(c == "currentColor" or c.startswith("var(--") for c in colors)


@each_drawing
def test_it_is_described(draw):
    drawing = draw()
    assert read(drawing).get("aria-label") == drawing.alt
    assert drawing.svg() in drawing._repr_html_()


def test_numbers_come_from_the_arrays():
    average = DRAWINGS["average"]()
    assert "0.42 of bank" in average.alt or "0.43 of bank" in average.alt
    qkv = DRAWINGS["qkv"]()
    assert [part for part in ("5 × 6", "5 × 2", "5 × 3", "5 × 5") if part not in qkv.alt] == []
    assert "4 steps" in DRAWINGS["chain"]().alt


def test_the_largest_weight_has_the_thickest_line():
    lines = [
        float(p.get("stroke-width"))
        for p in read(DRAWINGS["average"]()).iter("path")
        if p.get("stroke-width")
    ]
    assert np.argmax(lines) in (1, 4)
    assert max(lines) > 2 * min(lines)


def test_a_fuller_cell_is_a_larger_number():
    drawing = Drawing(100, 100, ALT)
    drawing.cells(0, 0, [0.0, 0.5, 1.0], down=False)
    shades = [float(r.get("fill-opacity")) for r in read(drawing).iter("rect")]
    places = [float(r.get("x")) for r in read(drawing).iter("rect")]
    assert shades == sorted(shades)
    assert places == sorted(places)
    assert shades[0] < shades[-1]


def test_an_arrow_ends_where_it_points():
    drawing = Drawing(100, 100, ALT)
    drawing.arrow((10, 20), (70, 60))
    tips = [p.get("d") for p in read(drawing).iter("path")]
    assert tips[0].startswith("M10.0 20.0")
    assert tips[1].startswith("M70.0 60.0")


def test_labels_are_escaped():
    drawing = Drawing(200, 40, ALT + ' <b> & "x"')
    drawing.label(100, 20, "a < b & c")
    root = read(drawing)
    assert root.find("text").text == "a < b & c"
    assert root.get("aria-label").endswith('"x"')


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: Drawing(401, 10, ALT), "at most 400, got 401"),
        (lambda: Drawing(100, 10, "short"), "25 characters or more"),
        (lambda: Drawing(100, 10, ALT).box(0, 0, 30, 9, "too long"), "'too long' is 67 wide"),
        (lambda: Drawing(100, 10, ALT).label(90, 5, "outside"), "its room 20"),
        (lambda: mechanisms.weighted_average(WORDS, [0.5, 0.5], 0), r"shape \(5,\), got \(2,\)"),
        (lambda: mechanisms.weighted_average(WORDS, np.ones(5), 0), "sum 1"),
        (lambda: mechanisms.tokens_to_rows(WORDS, [1, 2], ROWS), "one id and row per token"),
    ],
)
def test_what_does_not_fit_is_refused(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
