"""The figures: numbers as in Python, usable by keyboard and ear, whole without a kernel."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("anywidget")

from figure_page import LEFT_OUTSIDE, TEXTS, heads, open_saved, serve, state_of

from attncourse import reference, softmax
from attncourse.measure import traffic
from attncourse.softmax import stable
from attncourse.widgets import AttentionExplorer, TilePlayer

TOKENS = ["the", "film", "was", "not", "bad"]
RNG = np.random.default_rng(5)
QUERY, KEY = RNG.normal(size=(2, 5, 64))


def explorer(**choices):
    return AttentionExplorer(TOKENS, QUERY, KEY, **choices)


PLAYED = [RNG.normal(size=(11, width)).astype(np.float32) for width in (4, 4, 2)]
BLOCKS = {"block_q": 4, "block_kv": 3}
LIMITS = {"plain": {}, "causal": {"is_causal": True}}
LIMITS["window"] = {"is_causal": True, "window_size": 5}


def player(arrays=PLAYED, **choices):
    return TilePlayer(*arrays, **(BLOCKS | {"window_size": 5} | choices))


every = pytest.mark.parametrize("make", [explorer, player, heads], ids=lambda make: make.__name__)


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


def computed(page, widget, states):
    """Let the page compute what it would show in each state."""
    return page.evaluate(
        """async ([source, states]) => {
            const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
            const { compute } = await import(url);
            return states.map(compute);
        }""",
        [widget._esm, states],
    )


def shown_weights(page):
    rows = page.locator(".attn-all tbody tr").all()
    return [[float(cell) for cell in row.locator("td").all_text_contents()] for row in rows]


@pytest.mark.browser
@pytest.mark.parametrize("choices", CASES.values(), ids=CASES)
def test_the_page_computes_what_python_computes(page, choices):
    state = json.loads(json.dumps(state_of(explorer(**choices))))
    serve(page, "")
    (found,) = computed(page, AttentionExplorer, [state])
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
@every
def test_arrow_keys_stay_inside_until_the_figure_is_gone(page, make):
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
            const slider = el.querySelector("input, select"), root = el.firstChild;
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
        [make()._esm, state_of(make())],
    )
    assert heard == [0, 1, 1, 0, 0]


@pytest.mark.browser
@pytest.mark.parametrize("width", [342, 390, 1000])  # a phone, within the book's margins, too
@pytest.mark.parametrize(
    "theme",
    ["color:#323232;background:#fff", "color:#ced6dd;background:#121212"],
    ids=["light", "dark"],
)
@pytest.mark.parametrize(
    "widget",
    [
        lambda: explorer(sharpness=16.0),
        lambda: explorer(sharpness=16.0, widths=[4, 64], divide=False),
        lambda: player(mask="causal"),
    ],
    ids=["one-width", "two-widths", "player"],
)
def test_it_is_accessible_and_fits(page, widget, theme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page.set_viewport_size({"width": width, "height": 900})
    figure = widget()
    open_saved(page, figure, theme)
    # The contrast rule is measured too: white or dark text over every shade of a cell.
    found = axe.Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]})
    assert [v["id"] for v in found.response["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(LEFT_OUTSIDE) == []
    height = page.locator(".attn-figure").bounding_box()["height"]
    kept = figure.static_height
    assert width < 1000 or abs(height - kept) <= 25, f"{kept} px are kept for {height} px"


@pytest.mark.browser
@pytest.mark.parametrize("make", [explorer, player], ids=lambda make: make.__name__)
def test_nothing_moves_for_readers_who_asked_for_stillness(page, make):
    bar = "getComputedStyle(document.querySelector('.attn-bar')).transitionDuration"
    open_saved(page, make())
    assert page.evaluate(bar) == "0.15s"
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(bar) == "0s"


@every
def test_the_module_needs_nothing_and_the_state_is_plain_json(make):
    figure = make()
    # The address of SVG's names is a name, not a place.
    code = re.sub(r"//.*|http://www.w3.org/2000/svg", "", figure._esm)
    assert not re.search(r"\bimport\b|\brequire\b|https?:|\bfetch\b|\beval\b|innerHTML", code)
    assert "url(" not in figure._css
    assert "@import" not in figure._css
    state = state_of(figure)
    assert json.loads(json.dumps(state, allow_nan=False)) == state


def test_the_explorer_keeps_the_products_of_every_width():
    state = state_of(explorer(widths=[4, 64]))
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
        (lambda: explorer(labels={"hue": "x"}), r"unknown labels \['hue'\]; this figure has"),
        (lambda: explorer(labels={"asks": "{who} asks"}), r"'asks' has the blanks \['who'\]"),
        (lambda: player(block_q=0), "block_q must be at least 1, got 0"),
        (lambda: player(mask="odd"), r"one of \['plain', 'causal', 'window'\], got 'odd'"),
        (lambda: player(watch=4), r"0 \.\.\. 3, got 4"),
        (lambda: player([PLAYED[0][None], *PLAYED[1:]]), r"one head, .* got \(1, 11, 4\)"),
        (lambda: player([*PLAYED[:2], PLAYED[2] * np.inf]), "value must hold finite"),
        (lambda: player([*PLAYED[:2], PLAYED[2][:5]]), "do not belong together"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def expected_steps(mask, gain, subtract, watch, arrays, align):
    """What the player must show at each step, by the package's own fold and counter."""
    query, key, value = (array.astype(np.float64) for array in arrays)
    _, memory = traffic.tiled(*arrays, **LIMITS[mask], causal_align=align, **BLOCKS)
    scores, limits = np.full((len(query), len(key)), -np.inf), {"causal_align": align}
    for i in range(len(query)):
        seen = list(reference.allowed_keys(i, *scores.shape, **limits, **LIMITS[mask]))
        scores[i, seen] = gain * (key[seen] @ query[i]) * query.shape[1] ** -0.5
    loaded = stored = 0
    for kind, name, part, nbytes in memory.moves:
        loaded, stored = loaded + nbytes * (kind == "load"), stored + nbytes * (kind == "store")
        if name == "q":
            row = min(part.start + watch, part.stop - 1)
            row_max, row_sum = np.full((1, 1), -np.inf), np.zeros((1, 1))
            acc, shrink = np.zeros((1, 2)), np.ones(1)
        if name == "v":
            block = scores[row : row + 1, part].copy()
            row_max, row_sum, acc, shrink = folded(
                row_max, row_sum, acc, block, value[part], subtract
            )
        if name in ("q", "v", "out"):
            after = {"max": row_max.item(), "sum": row_sum.item(), "acc": acc[0]}
            yield {"query": row, "after": after, "shrink": shrink.item()} | {
                "loaded": loaded,
                "stored": stored,
                "lse": (np.log(row_sum) + row_max if subtract else np.log(row_sum)).item(),
                "out": (acc / np.where(row_sum == 0, 1, row_sum))[0],
            }


def folded(row_max, row_sum, acc, block, value, subtract):
    if subtract:
        row_max, row_sum, weights, shrink = softmax.fold_block(row_max, row_sum, block)
        return row_max, row_sum, acc * shrink + weights @ value, shrink
    new_max, weights = np.maximum(row_max, block.max()), np.exp(block)
    return new_max, row_sum + weights.sum(), acc + weights @ value, np.ones(1)


PLAYS = {
    "plain": ("plain", 1, True, 3, PLAYED, "top_left"),
    "causal": ("causal", 1, True, 0, PLAYED, "top_left"),
    "window": ("window", 10, True, 3, PLAYED, "top_left"),
    "huge-scores": ("causal", 1000, True, 2, PLAYED, "top_left"),
    "no-maximum": ("causal", 1, False, 3, PLAYED, "top_left"),
    "no-maximum-overflows": ("plain", 1000, False, 1, PLAYED, "top_left"),
    "more-keys": ("causal", 1, True, 1, [PLAYED[0][:6], *PLAYED[1:]], "bottom_right"),
    "blind-rows": ("causal", 1, True, 0, [PLAYED[0], *(a[:5] for a in PLAYED[1:])], "bottom_right"),
}


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("play", PLAYS.values(), ids=PLAYS)
def test_every_step_shows_what_the_package_computes(page, play):
    mask, gain, subtract, watch, arrays, align = play
    state = state_of(player(arrays, mask=mask, watch=watch, causal_align=align))
    state |= {"gain": gain, "subtract": subtract}
    serve(page, "")
    steps = state["runs"][state["run_index"]]["steps"]
    found = computed(page, TilePlayer, [state | {"step": i} for i in range(len(steps))])
    wanted = list(expected_steps(*play))
    assert len(found) == len(wanted)
    for i, (got, want) in enumerate(zip(found, wanted, strict=True)):
        assert all(got[name] == want[name] for name in ("query", "loaded", "stored")), i
        for name in ("shrink", "lse", "out"):
            np.testing.assert_allclose(got[name], want[name], rtol=1e-9, err_msg=f"{name} {i}")
        for name, number in want["after"].items():
            np.testing.assert_allclose(got["after"][name], number, rtol=1e-9, err_msg=f"{name} {i}")


def test_what_is_played_is_attention_and_its_whole_traffic():
    state = state_of(player())
    for run, limits in zip(state["runs"], LIMITS.values(), strict=True):
        out, memory = traffic.tiled(*PLAYED, **limits, **BLOCKS)
        np.testing.assert_allclose(out, reference.attention(*PLAYED, **limits), atol=1e-5)
        assert sum(step["loaded"] + step["stored"] for step in run["steps"]) == memory.moved
        assert run["whole"] == traffic.materialised(*PLAYED, **limits)[1].moved
    tiles = [sum(step["kind"] == "fold" for step in run["steps"]) for run in state["runs"]]
    assert tiles[0] == 3 * 4 > tiles[1] > tiles[2]


def table(page):
    rows = page.locator(".attn-known tbody tr").all()
    return {row.locator("th").text_content(): row.locator("td").all_text_contents() for row in rows}


def said(page):
    return page.locator(".attn-live").text_content()


@pytest.mark.browser
def test_a_saved_player_is_stepped_by_keyboard_to_the_end(page):
    open_saved(page, player(mask="causal"))
    assert "Queries 0 to 3 are read. Query 3 has met no key" in said(page)
    page.get_by_role("button", name="Step ▸").focus()
    page.keyboard.press("Enter")
    assert "Keys and values 0 to 2 are read. Query 3 meets its first scores" in said(page)
    page.get_by_role("button", name="Back").focus()
    page.keyboard.press("Space")
    assert page.locator("output").first.text_content() == "1 of 15"
    page.get_by_label("Step", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("output").first.text_content() == "2 of 15"
    page.keyboard.press("End")
    assert "Outputs and lse of queries 8 to 10 are written" in said(page)
    wanted, lse = reference.attention(*PLAYED, is_causal=True, return_lse=True)
    shown = table(page)
    np.testing.assert_allclose(float(shown["lse"][1].replace("−", "-")), lse[10], atol=6e-4)
    out = [float(x.replace("−", "-")) for x in shown["output"][1].split(", ")]
    np.testing.assert_allclose(out, wanted[10], atol=6e-4)
    moved = traffic.tiled(*PLAYED, is_causal=True, **BLOCKS)[1].moved
    assert page.locator("dd").nth(1).text_content() == str(moved)


@pytest.mark.browser
def test_a_causal_mask_leaves_tiles_out_and_hatches_them(page):
    open_saved(page, player())
    count = "document.querySelectorAll('.attn-tile').length"
    assert page.evaluate(count) == 12
    assert page.locator(".attn-hidden").count() == 0
    page.get_by_role("button", name="causal").click()
    assert page.evaluate(count) == 2 + 3 + 4
    assert page.locator(".attn-hidden").count() > 0
    assert page.get_by_label("Step", exact=True).get_attribute("max") == "14"
    holes = page.locator(".attn-never").get_attribute("d").count("z") - 1
    assert holes == 9
    page.get_by_role("button", name="Step ▸").click()
    assert page.locator(".attn-now").count() == 1
    assert (page.locator(".attn-q").count(), page.locator(".attn-k").count()) == (1, 1)
    page.get_by_role("button", name="window of 5").click()
    assert page.evaluate(count) == 2 + 3 + 3


@pytest.mark.browser
def test_without_the_maximum_large_scores_lose_the_query(page):
    open_saved(page, player(mask="plain"))
    page.get_by_label("Scores multiplied by").focus()
    page.keyboard.press("End")
    page.get_by_label("Step", exact=True).focus()
    page.keyboard.press("End")
    assert "divides by its sum, once" in said(page)
    assert "NaN" not in str(table(page))
    page.get_by_label("Subtract the running maximum").uncheck()
    assert "is lost: its sum is ∞" in said(page)
    assert table(page)["sum"][1] == "∞"
    assert "NaN" in table(page)["output"][1]


@pytest.mark.browser
def test_it_plays_only_when_asked_and_stops_when_told(page):
    page.clock.install()
    open_saved(page, player())
    where = page.locator("output").first
    page.clock.run_for(5000)
    assert where.text_content() == "1 of 18"
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(2500)
    assert where.text_content() == "3 of 18"
    assert page.locator(".attn-live").get_attribute("aria-live") == "off"
    page.get_by_role("button", name="Pause").click()
    page.clock.run_for(5000)
    assert where.text_content() == "3 of 18"
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(60_000)
    assert where.text_content() == "18 of 18"
    assert page.get_by_role("button", name="Play").count() == 1
    page.get_by_role("button", name="Play").click()
    assert where.text_content() == "1 of 18"


EVERY_TEXT = """() => {
  const found = [];
  const walk = document.createTreeWalker(document.querySelector(".attn-figure"), 4);
  while (walk.nextNode()) found.push(walk.currentNode.data);
  for (const node of document.querySelectorAll(".attn-figure, .attn-figure *"))
    for (const name of ["aria-label", "aria-valuetext", "title", "placeholder"])
      if (node.hasAttribute(name)) found.push(node.getAttribute(name));
  return found;
}"""
SAID = " ".join(TEXTS).split()
# Words of the data, names in the code.
NOT_TRANSLATED = {*TOKENS, *SAID, "CLS", "q", "k", "v", "out", "lse", "E"}


@pytest.mark.browser
@every
def test_every_text_of_a_figure_can_be_translated(page, make):
    english = make().labels
    foreign = {
        name: "§ " + " ".join(re.findall(r"\{\w+\}", text)) for name, text in english.items()
    }
    open_saved(page, make(labels=foreign))
    for _ in range(3):
        for button in page.get_by_role("button").all():
            button.click()
        words = re.findall(r"[^\W\d_]+", " ".join(page.evaluate(EVERY_TEXT)))
        assert set(words) <= NOT_TRANSLATED
    assert "§" in said(page)


def test_without_anywidget_the_error_names_the_extra():
    code = "import sys; sys.modules['anywidget'] = None; import attncourse.widgets"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "attncourse[widgets]" in done.stderr
