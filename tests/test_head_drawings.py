"""Drawings of heads, turns and masks: they show the numbers they were given, and text fits."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from attncourse import masks
from attncourse.plotting import block_drawing, drawings, head_drawings, vector_drawings

SIGNS = np.random.default_rng(1).choice([-1, 1], (12, 64))
BOTTOM, TOP = masks.causal(2, 5, align="bottom_right"), masks.causal(2, 5)
RIGHT = np.array([1.0, 0.0]), np.array([0.0, 1.0])

MADE = {
    "block": lambda: block_drawing.block(64, 4, 2, 168),
    "large-block": lambda: block_drawing.block(16384, 128, 8, 53248),
    "walks": lambda: vector_drawings.random_walks(SIGNS),
    "steep-walks": lambda: vector_drawings.random_walks(np.ones((3, 100))),
    "split": lambda: head_drawings.split_and_join(3, 3, 2),
    "widest-split": lambda: head_drawings.split_and_join(4, 4, 2),
    "sharing": lambda: head_drawings.shared_heads(8, (8, 2, 1)),
    "turns": lambda: vector_drawings.turned_pairs([("q at 1, k at 3", *RIGHT), ("later", *RIGHT)]),
    "corners": lambda: head_drawings.corners({"bottom right": BOTTOM, "top left": TOP}),
}


def root_of(drawing):
    return ET.fromstring(drawing.svg())


def texts(drawing):
    """Return every text with the box it fills, going by its letters."""
    for node in root_of(drawing).iter("text"):
        width = drawings.LETTER * drawings.SIZE * len(node.text)
        x, y = float(node.get("x")), float(node.get("y"))
        left = x - width * {"start": 0, "middle": 0.5, "end": 1}[node.get("text-anchor")]
        yield node.text, (left, y - 7, left + width, y + 7)


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_text_stays_inside_and_apart(make):
    drawing = make()
    boxes = list(texts(drawing))
    assert boxes
    for i, (text, (left, top, right, bottom)) in enumerate(boxes):
        assert left >= 0, text
        assert top >= 0, text
        assert right <= drawing.width, text
        assert bottom <= drawing.height, text
        for other, (x, y, to_x, to_y) in boxes[:i]:
            assert right <= x or to_x <= left or bottom <= y or to_y <= top, (text, other)


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_it_is_narrow_described_and_takes_the_page_s_colours(make):
    drawing = make()
    assert drawing.width <= 400
    assert len(drawing.alt) >= 25
    painted = re.findall(r'(?:fill|stroke)="([^"]+)"', drawing.svg())
    assert {c for c in painted if not c.startswith("var(")} <= {"none", "currentColor"}
    assert make().svg() == drawing.svg()


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_nothing_is_drawn_outside(make):
    drawing = make()
    for node in root_of(drawing).iter("rect"):
        x, y, width, height = (float(node.get(name)) for name in ("x", "y", "width", "height"))
        assert x >= 0 <= y
        assert x + width <= drawing.width + 0.1
        assert y + height <= drawing.height + 0.1


def test_a_walk_ends_at_its_sum():
    drawing = vector_drawings.random_walks([[1, 1, 1, 1], [1, -1, 1, -1]])
    lines = [node.get("points").split() for node in root_of(drawing).iter("polyline")]
    ends = [float(line[-1].split(",")[1]) for line in lines]
    steep, level, zero, root, _ = ends
    assert level == zero
    np.testing.assert_allclose((zero - steep) / (zero - root), 4 / 2, rtol=0.01)


@pytest.mark.parametrize("kept", [1, 2, 4])
def test_each_query_head_points_at_the_head_of_its_group(kept):
    drawing = head_drawings.shared_heads(4, [kept])
    tips = [float(x) for x, _ in re.findall(r'<path d="M(\S+) (\S+)L[^"]*Z"', drawing.svg())]
    expected = [100 * (head // (4 // kept) + 0.5) * (4 // kept) for head in range(4)]
    assert tips == expected
    assert f"{2 * kept} E numbers" in drawing.svg()


def test_a_mask_stands_at_its_corner_with_its_own_cells():
    drawing = head_drawings.corners({"bottom right": BOTTOM, "top left": TOP})
    filled = [n for n in root_of(drawing).iter("rect") if n.get("fill-opacity") == "0.75"]
    heights = sorted({float(node.get("y")) for node in filled})
    assert heights == [46, 76, 136, 166]
    assert len(filled) == BOTTOM.sum() + TOP.sum()


def test_turned_pairs_write_the_product_of_what_they_draw():
    drawing = vector_drawings.turned_pairs([("a", [1.0, 0.0], [-0.5, 2.0])])
    assert "q · k = \N{MINUS SIGN}0.50" in drawing.svg()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vector_drawings.random_walks([1, -1]), r"\(2,\)"),
        (lambda: block_drawing.block(64, 4, 3, 168), "num_heads 4 .* num_kv_heads 3"),
        (lambda: block_drawing.block(10**6, 4, 2, 10**6), "wide, its room"),
        (lambda: head_drawings.split_and_join(3, 5, 2), "3, 5, 2"),
        (lambda: head_drawings.shared_heads(8, (3,)), r"8, \[3\]"),
        (lambda: vector_drawings.turned_pairs([("a", [1.0], [1.0])]), r"\(1,\)"),
        (lambda: head_drawings.corners({"a": np.ones((2, 7), bool)}), r"\(2, 7\)"),
    ],
    ids=["walks", "block-heads", "block-width", "split", "sharing", "turns", "corners"],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
