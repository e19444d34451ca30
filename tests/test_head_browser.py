"""The head browser: the numbers of Python, a control beside every sentence, and late loading."""

import base64
import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("anywidget")

from figure_page import (
    HEADS,
    LAYERS,
    LEFT_OUTSIDE,
    LOADER,
    SENTENCES,
    heads,
    open_saved,
    serve,
    state_of,
)

from attncourse.notebook import measured
from attncourse.widgets import HeadBrowser

sys.path.insert(0, str(Path(__file__).parents[1] / "book" / "_ext"))
from course_late_figures import move_out

MIME = "application/vnd.jupyter.widget-"


def rows_of(number, layer, head):
    each = SENTENCES[number]
    size = len(each["tokens"])
    steps = np.frombuffer(base64.b64decode(each["weights"]), np.uint8)
    return steps.reshape(LAYERS, HEADS, size, size)[layer, head] / 255


@pytest.mark.browser
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("chosen", [{}, {"layer": 1, "head": 2, "token": 2}], ids=str)
def test_the_page_computes_what_python_computes(page, number, chosen):
    state = json.loads(json.dumps(state_of(heads(**chosen))))
    serve(page, "")
    found = page.evaluate(
        """async ([source, state, which]) => {
            const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
            return (await import(url)).compute(state, which);
        }""",
        [HeadBrowser._esm, state, number],
    )
    rows = rows_of(number, state["layer"], state["head"])
    size = len(rows)
    np.testing.assert_allclose(found["rows"], rows)
    np.testing.assert_allclose(found["row"], rows[state["token"]])
    assert found["top"] == rows[state["token"]].argmax()
    habits = {
        "previous": rows.diagonal(-1).mean(),
        "itself": rows.diagonal().mean(),
        "next": rows.diagonal(1).mean(),
        "first": rows[:, 0].mean(),
        "last": rows[:, size - 1].mean(),
    }
    assert found["habits"] == pytest.approx(habits)


def shown(page, place):
    """Return the numbers under the words of the sentence (0) or of its control (1)."""
    texts = page.locator(".attn-reading").nth(place).locator(".attn-number").all_text_contents()
    return [float(text) for text in texts]


@pytest.mark.browser
def test_a_saved_page_walks_through_heads_sentences_and_words_by_keyboard(page):
    open_saved(page, heads())
    assert page.locator(".attn-gallery button").count() == LAYERS * HEADS
    np.testing.assert_allclose(shown(page, 0), rows_of(0, 0, 0)[1], atol=0.00501)
    np.testing.assert_allclose(shown(page, 1), rows_of(1, 0, 0)[1], atol=0.00501)
    page.get_by_role("button", name="Layer 0, head 0").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.ariaLabel").startswith("Layer 1, head 1")
    page.keyboard.press("ArrowDown")  # there is no layer below: nothing happens
    np.testing.assert_allclose(shown(page, 0), rows_of(0, 1, 1)[1], atol=0.00501)
    page.get_by_label("Sentence", exact=True).select_option("it was tired")
    np.testing.assert_allclose(shown(page, 0), rows_of(2, 1, 1)[1], atol=0.00501)
    np.testing.assert_allclose(shown(page, 1), rows_of(3, 1, 1)[1], atol=0.00501)
    page.locator(".attn-words button").nth(3).focus()
    np.testing.assert_allclose(shown(page, 0), rows_of(2, 1, 1)[3], atol=0.00501)
    # The control is shorter: its last word stands for a word that it does not have.
    np.testing.assert_allclose(shown(page, 1), rows_of(3, 1, 1)[2], atol=0.00501)
    page.wait_for_function(
        "document.querySelector('.attn-live').textContent.startsWith('“tired” gives')"
    )


@pytest.mark.browser
def test_a_word_answers_to_the_pointer(page):
    open_saved(page, heads())
    page.locator(".attn-words button").nth(2).hover()
    np.testing.assert_allclose(shown(page, 0), rows_of(0, 0, 0)[2], atol=0.00501)


@pytest.mark.browser
@pytest.mark.parametrize("width", [342, 1000])
@pytest.mark.parametrize(
    "theme", ["color:#323232;background:#fff", "color:#ced6dd;background:#121212"]
)
def test_the_real_heads_are_accessible_and_fit(page, width, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    real = measured("minilm_heads")
    page.set_viewport_size({"width": width, "height": 900})
    figure = HeadBrowser(real["sentences"], real["layers"], real["heads"], head=2)
    open_saved(page, figure, theme)
    assert page.locator(".attn-gallery button").count() == 72
    found = axe.Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]})
    assert [v["id"] for v in found.response["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(LEFT_OUTSIDE) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sentences": SENTENCES[:3]}, "pairs of one and its control, got 3"),
        ({"layers": 3}, r"3 layers of 3 heads have \d+ weights, got"),
        ({"head": 3}, r"head must lie in 0 ... 2, got 3"),
        ({"token": 9}, "token must lie in"),
        ({"labels": {"colour": "blue"}}, "unknown labels"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(change, message):
    given = {"sentences": SENTENCES, "layers": LAYERS, "heads": HEADS} | change
    with pytest.raises(ValueError, match=message):
        HeadBrowser(**given)


def test_weights_that_do_not_sum_to_one_are_refused():
    flat = base64.b64encode(bytes([40]) * (LAYERS * HEADS * 25)).decode()
    broken = SENTENCES[0] | {"weights": flat}
    with pytest.raises(ValueError, match="must sum to 1"):
        HeadBrowser([broken, broken], LAYERS, HEADS)


def late_page():
    figure = heads()
    record = {"model_module": "anywidget", "state": json.loads(json.dumps(state_of(figure)))}
    record["state"] |= {"_esm": figure._esm, "_css": figure._css}
    state = json.dumps({"state": {"m": record, "n": {"state": {}}}}).replace("</", "<\\/")
    html = (
        f'<div style="height:4000px"></div><script type="{MIME}state+json">{state}</script>'
        f'<script type="{MIME}view+json">{{"model_id": "m"}}</script>'
        f"<script>{LOADER.read_text(encoding='utf-8')}</script>"
    )
    return move_out(html, "chapters/05_heads", 1)


def test_only_figures_that_may_be_late_leave_the_page():
    html, scripts = late_page()
    ((name, text),) = scripts.items()
    assert SENTENCES[0]["weights"] in text
    assert SENTENCES[0]["weights"] not in html
    assert f'"../{name}"' in html
    assert '"n": {"state": {}}' in html
    assert move_out(html, "chapters/05_heads", 1) == (html, {})  # once is enough


@pytest.mark.browser
def test_a_late_figure_is_loaded_when_the_reader_comes_near(page):
    html, scripts = late_page()
    asked = []

    def answer(route):
        name = route.request.url.removeprefix("http://page.test/")
        asked.append(name)
        route.fulfill(body=scripts[name], content_type="text/javascript")

    serve(page, html)
    page.route("**/_figures/*", answer)
    page.wait_for_function("document.documentElement.dataset.widgets === 'mounted'")
    assert asked == []
    page.evaluate("window.scrollTo(0, 3800)")
    page.wait_for_selector(".attn-heads")
    assert asked == [*scripts]
    np.testing.assert_allclose(shown(page, 0), rows_of(0, 0, 0)[1], atol=0.00501)
