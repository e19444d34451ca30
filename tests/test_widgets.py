"""The explorer: numbers as in Python, usable by keyboard and ear, whole without a kernel."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("anywidget")

from attncourse.softmax import stable
from attncourse.widgets import AttentionExplorer

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update"
).split()
LOADER = Path(__file__).parents[1] / "book/_static/widgets-static.js"
TOKENS = ["the", "film", "was", "not", "bad"]
RNG = np.random.default_rng(5)
QUERY, KEY = RNG.normal(size=(2, 5, 64))


def explorer(**choices):
    return AttentionExplorer(TOKENS, QUERY, KEY, **choices)


def state_of(widget):
    return {k: v for k, v in widget.get_state().items() if not k.startswith("_") and k != "layout"}


def expected(state):
    """What the page must show, computed with NumPy and the package's own softmax."""
    width = state["widths"][state["width_index"]]
    scores = state["sharpness"] * (QUERY[:, :width] @ KEY[:, :width].T)
    scores = scores / np.sqrt(width) if state["divide"] else scores
    weights = stable(scores)
    row = weights[state["selected"]]
    jacobian = np.diag(row) - np.outer(row, row)
    return {
        "scores": scores,
        "weights": weights,
        "spread": scores.std(),
        "gradient": np.linalg.norm(jacobian),
        "top": row.argmax(),
    }


CASES = {
    "plain": {},
    "asks-last": {"selected": 4},
    "uniform": {"sharpness": 0.0},
    "one-hot": {"sharpness": 64.0},
    "narrow": {"widths": [1, 8, 64]},
    "wide-not-divided": {"widths": [64, 8], "divide": False, "selected": 2},
    "huge-scores": {"sharpness": 1e4, "divide": False},
}


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed: the explorer was not opened in a browser")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    """A blank page from which nothing leaves; any console error fails the test."""
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    page = context.new_page()
    trouble = []
    page.on("console", lambda m: trouble.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.trouble = trouble
    yield page
    context.close()
    assert trouble == []


def serve(page, body):
    """Load one document at an address of its own; every other request is refused."""
    html = f"<!doctype html><html lang=en><title>t</title><body>{body}"
    page.route("**/*", lambda route: route.abort())
    page.route("http://page.test/", lambda r: r.fulfill(body=html, content_type="text/html"))
    page.goto("http://page.test/")


def open_saved(page, widget, style=""):
    """Open a page that holds only the saved state and the book's own loader."""
    record = {"model_module": "anywidget", "state": json.loads(json.dumps(state_of(widget)))}
    record["state"] |= {"_esm": AttentionExplorer._esm, "_css": AttentionExplorer._css}
    mime = "application/vnd.jupyter.widget-"
    safe = json.dumps({"state": {"m": record}}).replace("</", "<\\/")
    serve(
        page,
        f"<style>body{{margin:0;font-family:sans-serif;{style}}}</style>"
        f'<script type="{mime}state+json">{safe}</script>'
        f'<script type="{mime}view+json">{{"model_id": "m"}}</script>'
        f"<script>{LOADER.read_text(encoding='utf-8')}</script>",
    )
    page.wait_for_selector(".attn-explorer")


def shown_weights(page):
    rows = page.locator(".attn-all tbody tr").all()
    return [[float(cell) for cell in row.locator("td").all_text_contents()] for row in rows]


@pytest.mark.browser
@pytest.mark.parametrize("choices", CASES.values(), ids=CASES)
def test_the_page_computes_what_python_computes(page, choices):
    state = json.loads(json.dumps(state_of(explorer(**choices))))
    serve(page, "")
    found = page.evaluate(
        """async ([source, state]) => {
            const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
            return (await import(url)).compute(state);
        }""",
        [AttentionExplorer._esm, state],
    )
    wanted = expected(state)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.browser
def test_a_saved_page_reacts_to_the_keyboard_without_a_kernel(page):
    open_saved(page, explorer(widths=[4, 64]))
    before = shown_weights(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "the"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator("button[aria-pressed=true]").all_text_contents() == ["film"]
    page.get_by_label("Width of query and key").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_label("Divide the scores by √E").focus()
    page.keyboard.press("Space")
    after = shown_weights(page)
    assert after != before
    wanted = expected(state_of(explorer(widths=[4, 64])) | {"width_index": 1, "divide": False})
    np.testing.assert_allclose(after, wanted["weights"], atol=0.005001)
    page.wait_for_function(
        "document.querySelector('.attn-live').textContent.includes('“film” gives its largest')"
    )


@pytest.mark.browser
def test_sharpness_goes_from_the_average_to_one_key(page):
    open_saved(page, explorer())
    page.get_by_label("Scores multiplied by").focus()
    page.keyboard.press("Home")
    np.testing.assert_array_equal(shown_weights(page), np.full((5, 5), 0.2))
    assert page.locator("output").text_content() == "× 0"
    page.keyboard.press("End")
    assert np.max(shown_weights(page), axis=1).min() > 0.9


@pytest.mark.browser
def test_arrow_keys_stay_inside_until_the_figure_is_gone(page):
    serve(page, "<div id=here></div>")
    heard = page.evaluate(
        """async ([source, state]) => {
            const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
            const { default: widget } = await import(url);
            const data = { ...state }, on = {};
            const model = {
                get: (name) => data[name], set() {}, save_changes() {},
                on: (name, f) => { on[name] = f; },
                off: (name, f) => { if (on[name] === f) delete on[name]; },
            };
            const el = document.querySelector("#here");
            let heard = 0;
            document.addEventListener("keydown", () => heard++, true);
            const press = (node) => node.dispatchEvent(
                new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
            const cleanup = widget.render({ model, el });
            const slider = el.querySelector("input"), root = el.firstChild;
            press(slider);
            const inside = heard;
            press(document.body);
            const outside = heard - inside;
            cleanup();
            const left = el.children.length;
            el.append(root);
            press(slider);
            return [inside, outside, heard - outside, Object.keys(on).length, left];
        }""",
        [AttentionExplorer._esm, state_of(explorer())],
    )
    assert heard == [0, 1, 1, 0, 0]


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1000])
@pytest.mark.parametrize(
    "theme",
    ["color:#323232;background:#fff", "color:#ced6dd;background:#121212"],
    ids=["light", "dark"],
)
@pytest.mark.parametrize("choices", [{}, {"widths": [4, 64], "divide": False}], ids=["one", "two"])
def test_it_is_accessible_and_fits(page, choices, theme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page.set_viewport_size({"width": width, "height": 900})
    open_saved(page, explorer(sharpness=16.0, **choices), theme)
    # The contrast rule is measured too: white or dark text over every shade of a cell.
    found = axe.Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]})
    assert [v["id"] for v in found.response["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    height = page.locator(".attn-explorer").bounding_box()["height"]
    kept = explorer(**choices).static_height
    assert width < 1000 or abs(height - kept) <= 25, f"{kept} px are kept for {height} px"


@pytest.mark.browser
def test_nothing_moves_for_readers_who_asked_for_stillness(page):
    bar = "getComputedStyle(document.querySelector('.attn-bar')).transitionDuration"
    open_saved(page, explorer())
    assert page.evaluate(bar) == "0.15s"
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(bar) == "0s"


def test_the_module_needs_nothing_and_the_state_is_plain_json():
    code = re.sub(r"//.*", "", AttentionExplorer._esm)
    assert not re.search(r"\bimport\b|\brequire\b|https?:|\bfetch\b|\beval\b|innerHTML", code)
    assert "url(" not in AttentionExplorer._css
    assert "@import" not in AttentionExplorer._css
    state = state_of(explorer(widths=[4, 64]))
    assert json.loads(json.dumps(state, allow_nan=False)) == state
    assert np.shape(state["scores"]) == (2, 5, 5)
    np.testing.assert_array_equal(state["scores"][0], QUERY[:, :4] @ KEY[:, :4].T)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: AttentionExplorer(["a"], QUERY, KEY), r"each of the 1 tokens.*shape \(5, 64\)"),
        (lambda: AttentionExplorer([], QUERY[:0], KEY[:0]), "at least one"),
        (lambda: AttentionExplorer(TOKENS, QUERY, KEY[:, :3]), "query has width 64, key has .* 3"),
        (lambda: AttentionExplorer(TOKENS, QUERY * np.nan, KEY), "query must be finite"),
        (lambda: explorer(widths=[65]), r"1 \.\.\. 64, got \[65\]"),
        (lambda: explorer(widths=[]), r"got \[\]"),
        (lambda: explorer(selected=5), r"0 \.\.\. 4, got 5"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_without_anywidget_the_error_names_the_extra():
    code = "import sys; sys.modules['anywidget'] = None; import attncourse.widgets"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "attncourse[widgets]" in done.stderr
