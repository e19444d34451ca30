"""The house figures: what they draw, that they read in both themes, and what they refuse."""

import io
import re
import subprocess
import sys

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("svg")

import matplotlib.pyplot as plt  # noqa: E402

from attncourse import plotting  # noqa: E402
from attncourse.plotting import style  # noqa: E402

RNG = np.random.default_rng(3)
ROWS = RNG.dirichlet(np.ones(6), 5)  # (5, 6)
SEE = RNG.random((5, 6)) < 0.6
RUNS, NOISE = RNG.random((3, 40)), RNG.normal(size=500)
PHOTO = RNG.random((3, 8, 12))

DRAWINGS = {
    "line": lambda: plotting.line([1, 2, 4], [3, 1, 2], x="width", y="loss", title="A line"),
    "band": lambda: plotting.line(
        range(40), {"a": RUNS, "b": RUNS[0] + 1}, x="step", y="loss", title="t"
    ),
    "reference": lambda: plotting.line(
        [4, 16], {"a": [2, 4]}, x="E", y="spread", title="t", log_x=True, reference=("√E", [2, 4])
    ),
    "bars": lambda: plotting.bars({"rnn": [0.1, 0.3], "attention": 1.0}, y="share", title="t"),
    "histogram": lambda: plotting.histogram(
        {"narrow": NOISE, "wide": 4 * NOISE}, x="score", title="t"
    ),
    "points": lambda: plotting.points(
        {"values": [[0, 0], [1, 0], [0, 1]], "out": [[0.2, 0.3]]},
        x="first",
        y="second",
        title="t",
        outline="values",
    ),
    "weights": lambda: plotting.weights(ROWS, title="t", keys=list("abcdef"), allowed=SEE),
    "mask": lambda: plotting.mask(SEE, title="t"),
    "picture": lambda: plotting.picture(PHOTO, title="t", patch=4, marked=(1, 2)),
    "digit": lambda: plotting.picture(NOISE[:64].reshape(1, 8, 8), title="t"),
    "roofline": lambda: plotting.roofline(
        {"read": (0.5, 4e9), "multiply": (100.0, 60e9)}, peak=8e10, bandwidth=1e10, title="t"
    ),
    "signed": lambda: plotting.signed(NOISE[:27].reshape(3, 9), title="t", label="score"),
}


@pytest.fixture(autouse=True)
def _close_figures():
    plotting.use_style()
    yield
    plt.close("all")


def as_svg():
    plt.gcf().savefig(text := io.StringIO(), format="svg", metadata={"Date": None})
    return text.getvalue()


def luminance(color):
    parts = np.array(matplotlib.colors.to_rgb(color))
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("page", ["#ffffff", "#121212"])
@pytest.mark.parametrize("color", [*style.COLORS, plotting.GREY])
def test_every_colour_reads_on_a_white_and_on_a_dark_page(color, page):
    assert contrast(color, page) >= 3.0


@pytest.mark.parametrize("draw", DRAWINGS.values(), ids=DRAWINGS)
def test_a_figure_is_small_transparent_and_the_same_twice(draw):
    draw()
    width, height = plt.gcf().get_size_inches()
    assert width <= 6.0
    assert height <= 3.5
    assert matplotlib.colors.to_rgba(plt.gcf().get_facecolor())[3] == 0
    plain = as_svg()
    draw()
    assert as_svg() == plain, "the same cell must give the same bytes"
    assert "<dc:date>" not in plain
    # Black or white paint outside the cells' numbers would vanish on one of the two pages.
    numbers = sum(text.get_color() in ("black", "white") for text in plt.gcf().findobj(plt.Text))
    painted = re.findall(r"(?:fill|stroke): (?:#000000|#ffffff|black|white)\b", plain)
    assert len(painted) <= numbers + 1  # a clip rectangle of the renderer


@pytest.mark.parametrize("draw", DRAWINGS.values(), ids=DRAWINGS)
def test_all_text_is_at_least_twelve_points(draw):
    draw()
    plt.gcf().canvas.draw()
    shown = [t for t in plt.gcf().findobj(plt.Text) if t.get_visible() and t.get_text()]
    assert shown
    assert min(text.get_fontsize() for text in shown) >= 12


def test_lines_differ_in_more_than_colour():
    plotting.line([0, 1], {name: [i, i + 1] for i, name in enumerate("abcd")}, x="", y="", title="")
    drawn = plt.gca().lines
    assert len({line.get_marker() for line in drawn}) == 4
    assert len({str(line._unscaled_dash_pattern) for line in drawn}) == 4


def test_names_of_lines_that_end_together_do_not_touch():
    ends = {"first": [0, 1.0], "second": [1, 1.001], "third": [2, 1.002]}
    plotting.line([0, 1], ends, x="", y="", title="")
    boxes = [t.get_window_extent() for t in plt.gca().texts if t.get_text() in ends]
    assert len(boxes) == 3
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])


@pytest.mark.parametrize(
    ("heights", "numbers"),
    [([0.6, 4.0], {"1", "2"}), ([20, 90], {"20", "50"}), ([1, 1e5], set())],
    ids=["around-one", "within-a-decade", "many-decades"],
)
@pytest.mark.parametrize("kind", ["line", "bars"])
def test_a_short_logarithmic_axis_has_numbers_to_read(kind, heights, numbers):
    if kind == "line":
        plotting.line([0, 1], heights, x="x", y="y", title="t", log_y=True)
    else:
        values = dict(zip("ab", heights, strict=True))
        plotting.bars(values, y="y", title="t", log_y=True)
    plt.gcf().canvas.draw()
    low, high = plt.gca().get_ylim()
    axis = plt.gca().yaxis
    shown = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
    written = {label.get_text() for place, label in shown if low <= place <= high}
    assert numbers <= written
    assert numbers or any("10^" in text for text in written)


def test_several_runs_become_their_mean_and_a_band():
    runs = np.array([[1.0, 5.0], [3.0, 9.0]])
    plotting.line([0, 1], {"loss": runs}, x="step", y="loss", title="t")
    np.testing.assert_array_equal(plt.gca().lines[0].get_ydata(), [2.0, 7.0])
    band = plt.gca().collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (1.0, 9.0)


def test_bars_stand_at_the_mean_with_a_whisker():
    plotting.bars({"a": [1.0, 2.0, 6.0], "b": 4.0}, y="share", title="t")
    assert [bar.get_height() for bar in plt.gca().patches] == [3.0, 4.0]
    ((low, high),) = [s[:, 1] for s in plt.gca().collections[0].get_segments()[:1]]
    assert (low, high) == (1.0, 6.0)


def test_negative_bars_hang_from_a_line_at_zero():
    plotting.bars({"a": 0.25, "b": -0.5}, y="margin", title="t")
    ax = plt.gca()
    assert [list(line.get_ydata()) for line in ax.lines] == [[0, 0]]
    assert {"0.25", "\N{MINUS SIGN}0.5"} <= {text.get_text() for text in ax.texts}
    plotting.bars({"a": 0.25}, y="margin", title="t")
    assert not plt.gca().lines


def test_weights_use_one_fixed_scale_with_queries_down():
    plotting.weights(ROWS, title="t", queries=list("vwxyz"), keys=list("abcdef"))
    ax = plt.gcf().axes[0]
    mesh = ax.collections[0]
    assert (mesh.cmap.name, mesh.norm.vmin, mesh.norm.vmax) == ("cividis", 0.0, 1.0)
    np.testing.assert_array_equal(mesh.get_array(), ROWS)
    assert ax.yaxis_inverted()
    assert [t.get_text() for t in ax.get_yticklabels()] == list("vwxyz")
    assert [t.get_text() for t in ax.get_xticklabels()] == list("abcdef")
    assert {t.get_text() for t in ax.texts} == {f"{value:.2f}" for value in ROWS.flat}


def test_hidden_cells_are_hatched_and_show_no_number():
    plotting.weights(ROWS, title="t", allowed=SEE)
    ax = plt.gcf().axes[0]
    (hatch,) = ax.patches
    assert hatch.get_hatch()
    assert len(hatch.get_path().to_polygons()) == (~SEE).sum()
    np.testing.assert_array_equal(ax.collections[0].get_array().mask, ~SEE)
    assert len(ax.texts) == SEE.sum()


def test_signed_numbers_are_centred_on_zero():
    plotting.signed([[-3.0, 1.0, 2.0]], title="t", label="score")
    norm = plt.gcf().axes[0].collections[0].norm
    assert (norm.vmin, norm.vmax) == (-3.0, 3.0)
    plotting.signed([[np.inf, 1.0, 2.0]], title="t", allowed=[[False, True, True]])
    assert plt.gcf().axes[0].collections[0].norm.vmax == 2.0


def test_a_histogram_keeps_every_sample():
    plotting.histogram({"x": [0.0, 0.0, 1.0, 3.0]}, x="score", title="t", bins=[0, 1, 2, 4])
    np.testing.assert_allclose(plt.gca().patches[0].get_data().values, [0.5, 0.25, 0.125])


def test_names_of_distributions_stand_clear_of_taller_ones():
    wide, narrow = np.linspace(-12, 0, 4000), np.linspace(-4, -3.5, 4000)
    plotting.histogram({"narrow": narrow, "wide": wide}, x="power", title="t", bins=40)
    plt.gcf().canvas.draw()
    name = next(t for t in plt.gca().texts if t.get_text() == "wide")
    left, right = plt.gca().transData.inverted().transform(name.get_window_extent())[:, 0]
    assert right < -4 or left > -3.5


def test_points_stand_where_they_are_and_the_outline_joins_one_group():
    corners, inside = [[0, 0], [4, 0], [0, 3]], [[1, 1]]
    groups = {"values": corners, "out": inside}
    roles = (plotting.VALUE, plotting.OUT)
    plotting.points(groups, x="x", y="y", title="t", outline="values", colors=roles)
    shown = [matplotlib.colors.to_hex(s.get_facecolor()[0]) for s in plt.gca().collections]
    assert shown == [color.lower() for color in roles]
    drawn = [scatter.get_offsets().tolist() for scatter in plt.gca().collections]
    assert drawn == [corners, inside]
    (outline,) = plt.gca().patches
    assert outline.get_xy()[:3].tolist() == corners


@pytest.mark.parametrize(
    ("draw", "error", "message"),
    [
        (lambda: plotting.weights([[0.5, 1.5]], title=""), ValueError, r"1\.5.*plotting\.signed"),
        (lambda: plotting.weights([0.5, 0.5], title=""), ValueError, r"shape \(2,\)"),
        (lambda: plotting.mask([[0, 1]], title=""), TypeError, "int64"),
        (
            lambda: plotting.weights(ROWS, title="", keys=list("ab")),
            ValueError,
            "2 names were given for 6",
        ),
        (
            lambda: plotting.weights(ROWS, title="", allowed=SEE[:3]),
            ValueError,
            r"\(3, 6\), the matrix has \(5, 6\)",
        ),
        (
            lambda: plotting.line([1, 2], {"a": [1, 2, 3]}, x="", y="", title=""),
            ValueError,
            r"'a' has shape \(3,\), x_values has \(2,\)",
        ),
        (
            lambda: plotting.line([1], {name: [1] for name in "abcde"}, x="", y="", title=""),
            ValueError,
            "5 lines",
        ),
        (
            lambda: plotting.histogram({name: [1] for name in "abcde"}, x="", title=""),
            ValueError,
            "5",
        ),
    ],
)
def test_a_wrong_figure_says_what_was_wanted(draw, error, message):
    with pytest.raises(error, match=message):
        draw()


def test_without_matplotlib_the_error_names_the_extra():
    code = "import sys; sys.modules['matplotlib'] = None; import attncourse.plotting"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "attncourse[plot]" in done.stderr


def test_a_picture_is_drawn_pixel_by_pixel_with_its_patch_framed():
    plotting.picture(PHOTO, title="t", patch=4, marked=(1, 2))
    (ax,) = plt.gcf().axes
    np.testing.assert_array_equal(ax.images[0].get_array(), PHOTO.transpose(1, 2, 0))
    (frame,) = ax.patches
    assert (frame.get_x(), frame.get_y(), frame.get_width()) == (8, 4, 4)
    assert [len(lines.get_segments()) for lines in ax.collections] == [3, 4]


def test_ink_is_dark_within_the_limits_asked_for():
    plotting.picture(NOISE[:64].reshape(1, 8, 8), title="t")
    plotting.picture(NOISE[:64].reshape(1, 8, 8), title="t", limits=(-5, 7))
    own, asked = (plt.figure(number).axes[0].images[0] for number in plt.get_fignums())
    assert own.get_clim() == (NOISE[:64].min(), NOISE[:64].max())
    assert asked.get_clim() == (-5, 7)
    assert asked.cmap(1.0)[:3] == (0, 0, 0)


def test_a_picture_says_what_it_wants():
    with pytest.raises(ValueError, match=r"\(3 or 1, height, width\), got \(8, 12\)"):
        plotting.picture(PHOTO[0], title="t")
    with pytest.raises(ValueError, match=r"patches of 5 pixels do not fit into \(8, 12\)"):
        plotting.picture(PHOTO, title="t", patch=5)
    with pytest.raises(ValueError, match="give patch"):
        plotting.picture(PHOTO, title="t", marked=(0, 0))


def test_roofline_bends_where_the_peak_meets_the_bandwidth():
    figure_axes = plotting.panels(1, title="x")[0]
    calls = {"slow": (0.5, 4e9), "fast": (100.0, 60e9)}
    plotting.roofline(calls, peak=80e9, bandwidth=10e9, title="Roof", ax=figure_axes)
    roof, *points = figure_axes.get_lines()
    x, y = roof.get_data()
    np.testing.assert_allclose(y, np.minimum(80, 10 * x))
    assert 8.0 in x
    assert [(p.get_xdata()[0], p.get_ydata()[0]) for p in points] == [(0.5, 4.0), (100.0, 60.0)]
    assert [text.get_text() for text in figure_axes.texts] == ["slow", "fast"]


def test_roofline_says_what_it_cannot_draw():
    with pytest.raises(ValueError, match="0 calls were given; 1 to 4"):
        plotting.roofline({}, peak=1.0, bandwidth=1.0, title="x")
    with pytest.raises(ValueError, match=r"must be positive, got 1\.0 and 0\.0"):
        plotting.roofline({"a": (1.0, 1.0)}, peak=1.0, bandwidth=0.0, title="x")
