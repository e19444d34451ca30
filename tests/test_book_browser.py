"""The built pages in a real browser, with every request to another server blocked."""

import gzip
import os
import shutil
import threading
from contextlib import closing
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from built_book import HTML, page_names, require_book

pytestmark = [pytest.mark.book, pytest.mark.browser]
PAGES = [n for n in page_names() if n.startswith(("book/", "chapters/", "exercises/"))] or [
    "index.html"
]
CHAPTERS = [n for n in PAGES if n.startswith("chapters/")] or ["index.html"]
MAX_KILOBYTES, MAX_LATE_KILOBYTES = 600, 400
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]  # fmt: skip


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address():
    require_book()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(HTML)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    names = ("chromium", "chromium-browser", "google-chrome")
    found = [shutil.which(os.environ.get("CHROMIUM", "")), *map(shutil.which, names)]
    path = next(filter(None, found), None)
    if path is None:
        message = "no Chromium found: the pages were not opened in a browser"
        if os.environ.get("CI"):
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def context(browser):
    """One reader, who opens page after page."""
    context = browser.new_context()
    yield context
    context.close()


class Visit:
    """One page, opened once and looked at in many ways; remembers what went wrong."""

    def __init__(self, context, base, name, viewport=WIDE):
        self.context, self.base = context, base
        self.outside, self.failed, self.messages, self.responses = [], [], [], []
        self.page = context.new_page()
        self.page.on("request", self._ask)
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("requestfailed", lambda request: self.failed.append(request.url))
        self.page.on("response", lambda response: self.responses.append(response))
        self.look(viewport)
        self.page.goto(base + name, wait_until="load")
        self.page.wait_for_function(READY, timeout=20_000)

    def _ask(self, request):
        if not request.url.startswith((self.base, "blob:", "data:")):
            self.outside.append(request.url)

    def _note(self, message):
        if message.type in ("error", "warning"):
            self.messages.append(f"{message.text} {message.location['url']}")

    def look(self, viewport=WIDE, scheme="light", media="screen"):
        """Show the page on another screen, in the other colours, or on paper."""
        self.page.set_viewport_size(viewport)
        self.page.emulate_media(color_scheme=scheme, media=media)
        self.page.evaluate(SETTLE)

    def rest(self):
        """Wait for the theme, which looks at what scrolls .3 s after a change of width."""
        self.page.wait_for_timeout(400)

    def reach_late_figures(self):
        """Scroll to each figure that is loaded when the reader comes near."""
        for box in self.page.locator(".widget-waiting").all():
            box.scroll_into_view_if_needed()
        self.page.wait_for_function("!document.querySelector('.widget-waiting')", timeout=20_000)
        self.page.evaluate("window.scrollTo(0, 0)")

    def kilobytes(self):
        """Return what the page transferred, each response gzipped by itself."""
        for response in self.responses:
            if response.url not in GZIPPED:
                GZIPPED[response.url] = len(gzip.compress(response.body()))
        return sum(GZIPPED[response.url] for response in self.responses) / 1000

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.page.close()


GZIPPED = {}  # address: bytes; what the pages share is packed once
# Listeners have heard of the new look, and what moves has arrived.
SETTLE = """async () => {
  for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
  for (const motion of document.getAnimations()) {
    if (motion.effect.getComputedTiming().endTime < Infinity) motion.finish();
  }
}"""
READY = """() => {
  const html = document.documentElement.dataset;
  const maths = !document.querySelector(".tex") || html.maths === "drawn";
  const views = document.querySelector('script[type="application/vnd.jupyter.widget-view+json"]');
  return maths && (!views || html.widgets === "mounted") && document.fonts.status === "loaded";
}"""
FAULTS = """() => ({
  undrawn: [...document.querySelectorAll(".tex")]
    .filter((e) => !e.querySelector(".katex")).map((e) => e.textContent),
  mathErrors: [...document.querySelectorAll(".katex-error")].map((e) => e.title),
  emptyImages: [...document.images].filter((i) => !i.complete || !i.naturalWidth).map((i) => i.src),
  quietWidgets: document.querySelectorAll(".widget-quiet, .widget-waiting").length,
  overflow: document.documentElement.scrollWidth - window.innerWidth,
})"""
CLEAN = {"undrawn": [], "mathErrors": [], "emptyImages": [], "quietWidgets": 0, "overflow": 0}


@pytest.fixture(scope="module")
def visit(context, address, request):
    """A page that the tests below look at one after another, each in its own way."""
    with Visit(context, address, request.param) as visit:
        visit.page.wait_for_load_state("networkidle")
        visit.at_once = visit.kilobytes()
        visit.reach_late_figures()
        yield visit


def of(pages):
    """Run a test for some pages; pytest takes the tests of one page together."""
    return pytest.mark.parametrize("visit", pages, indirect=True, scope="module")


@of(PAGES)
def test_page_is_light(visit):
    assert visit.at_once <= MAX_KILOBYTES
    assert visit.kilobytes() - visit.at_once <= MAX_LATE_KILOBYTES


@pytest.mark.parametrize("look", ["light", "dark", "narrow"])
@of(PAGES)
def test_page_is_whole_without_a_network(visit, look):
    scheme = "dark" if look == "dark" else "light"
    visit.look(NARROW if look == "narrow" else WIDE, scheme)
    assert visit.page.evaluate(FAULTS) == CLEAN
    assert (visit.outside, visit.failed, visit.messages) == ([], [], [])
    assert [r.url for r in visit.responses if r.status >= 400] == []
    assert visit.page.evaluate("document.documentElement.dataset.theme") == scheme


ROOM_FOR_CODE = """() => {
  const cells = [...document.querySelectorAll("div.cell_input pre")];
  const lines = cells.map((pre) => pre.appendChild(document.createElement("span")));
  for (const line of lines) line.textContent = "m".repeat(79);
  const over = cells.map((pre, i) => {
    const style = getComputedStyle(pre);
    const room = pre.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    return pre.clientWidth ? lines[i].getBoundingClientRect().width - room : 0;
  });
  for (const line of lines) line.remove();
  return over;
}"""


@of(CHAPTERS)
def test_79_columns_of_code_fit_beside_both_sidebars(visit):
    visit.look()
    assert visit.page.locator(".bd-sidebar-secondary").is_visible()
    over = visit.page.evaluate(ROOM_FOR_CODE)
    assert over
    assert max(over) <= 0


SCROLLING = """() => [...document.querySelectorAll(".figure-box, .pst-scrollable-table-container")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1)
  .map((box) => ({
    reached: box.tabIndex === 0,
    contained: getComputedStyle(box).overflowX === "auto",
    hint: getComputedStyle(box).backgroundImage.includes("gradient"),
  }))"""
LETTERS = """() => [...document.querySelectorAll(".figure-box img")]
  .map((image) => (16 * image.clientWidth) / image.naturalWidth)"""


@of(["book/notation.html", "book/capabilities.html", *CHAPTERS])
def test_what_is_wider_than_a_phone_scrolls_visibly(visit):
    visit.look(NARROW)
    visit.rest()
    boxes = visit.page.evaluate(SCROLLING)
    assert boxes or not visit.page.locator(".figure-box").count(), "nothing here is wider"
    assert all(all(box.values()) for box in boxes), boxes
    # The figures' letters are 16 px high at full size.
    assert all(height >= 11 for height in visit.page.evaluate(LETTERS))


ON_PAPER = """() => ({
  cut: [...document.querySelectorAll(".bd-article pre")]
    .filter((pre) => pre.scrollWidth > pre.clientWidth + 1).map((pre) => pre.textContent),
  folded: [...document.querySelectorAll(".bd-article details:not(.tag_attncourse-setup *)")]
    .filter((box) => !(box.querySelector("pre") || box.lastElementChild)
      .checkVisibility({contentVisibilityAuto: true}))
    .map((box) => box.textContent),
  around: [...document.querySelectorAll(".bd-sidebar, .bd-sidebar-secondary, #jb-print-toc")]
    .filter((box) => box.checkVisibility()).map((box) => box.className || box.id),
  title: document.querySelector(".bd-article h1").checkVisibility(),
  paper: getComputedStyle(document.body).backgroundColor,
})"""
WHOLE = {"cut": [], "folded": [], "around": [], "title": True, "paper": "rgb(255, 255, 255)"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@of(CHAPTERS)
def test_paper_shows_the_whole_chapter(visit, scheme):
    inside_the_margins = {"width": 680, "height": 1000}
    visit.look(inside_the_margins, scheme)
    assert visit.page.locator(".bd-article details").count() > 1
    visit.look(inside_the_margins, scheme, "print")
    assert visit.page.evaluate(ON_PAPER) == WHOLE


# KaTeX's thousands of spans are hidden from screen readers, which read its MathML instead.
WITHOUT_HIDDEN_MATHS = "document.querySelectorAll('.katex-html').forEach((e) => e.remove())"
# Contrast is measured where the eye would: two pieces of text of every look that the page has.
ONE_OF_EACH_LOOK = """() => {
  const seen = new Map();
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.backgroundImage !== "none") return style.backgroundImage;
      if (!/, 0\\)|transparent/.test(style.backgroundColor)) return style.backgroundColor;
    }
  };
  for (const e of document.body.querySelectorAll("*")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    if (!e.checkVisibility({ visibilityProperty: true })) continue;
    const { color, opacity, fontSize, fontWeight } = getComputedStyle(e);
    const look = [e.tagName, color, opacity, fontSize, fontWeight, ground(e)].join();
    seen.set(look, (seen.get(look) ?? 0) + 1);
    if (seen.get(look) <= 2) e.dataset.look = "";
  }
  return seen.size;
}"""


def grave_violations(page, context, **options):
    """Return what axe finds that keeps somebody from reading."""
    from axe_playwright_python.sync_playwright import Axe

    options["resultTypes"] = ["violations"]
    return [
        (v["id"], [node["target"] for node in v["nodes"]][:3])
        for v in Axe().run(page, context, options).response["violations"]
        if v["impact"] in ("serious", "critical") or v["id"] == "region"
    ]


@of(PAGES)
def test_page_is_accessible(visit):
    visit.look()
    visit.rest()
    visit.page.evaluate(WITHOUT_HIDDEN_MATHS)
    assert grave_violations(visit.page, None, rules={"color-contrast": {"enabled": False}}) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@of(PAGES)
def test_text_stands_out_from_its_ground(visit, scheme):
    visit.look(scheme=scheme)
    assert visit.page.evaluate(ONE_OF_EACH_LOOK) >= 5
    looks = {"include": [["[data-look]"]]}
    assert grave_violations(visit.page, looks, runOnly=["color-contrast"]) == []


@pytest.mark.parametrize("name", ["book/notation.html", *CHAPTERS])
def test_without_scripts_the_page_says_what_is_missing(browser, address, name):
    silent = browser.new_context(java_script_enabled=False)
    page = silent.new_page()
    page.goto(address + name, wait_until="load")
    lines = page.locator(".needs-script")
    missing = page.locator('script[type*="widget-view"]').count()
    missing += page.locator(".tex").count() > 0
    said = [lines.nth(i).is_visible() for i in range(lines.count())]
    colour = page.locator("body").evaluate("b => getComputedStyle(b).backgroundColor")
    silent.close()
    assert said == [True] * missing
    assert colour == "rgb(253, 252, 249)", "the page has lost its colours"


@pytest.mark.parametrize("name", ["book/intro.html", "book/notation.html", *CHAPTERS])
def test_page_is_whole_from_disk(context, name):
    require_book()
    with Visit(context, Path(HTML).as_uri() + "/", name) as visit:
        visit.reach_late_figures()
        assert visit.page.evaluate(FAULTS) == CLEAN
        assert (visit.outside, visit.failed) == ([], [])


def test_search_finds_a_word(context, address):
    with Visit(context, address, "search.html?q=softmax") as visit:
        visit.page.wait_for_selector("#search-results li", timeout=20_000)
        assert visit.page.locator("#search-results li").count() >= 2
        assert (visit.outside, visit.failed) == ([], [])
        assert [r.url for r in visit.responses if r.status >= 400] == []


def test_the_menu_opens_on_a_phone(context, address):
    with Visit(context, address, CHAPTERS[0], NARROW) as visit:
        links = visit.page.locator("nav.bd-links a:visible")
        assert links.count() == 0
        visit.page.locator("button.primary-toggle:visible").click()
        links.first.wait_for(state="visible", timeout=5000)
        assert links.count() > len(CHAPTERS)
        visit.page.keyboard.press("Escape")
        links.first.wait_for(state="hidden", timeout=5000)
        assert visit.messages == []


def test_the_theme_button_changes_the_look(browser, address):
    alone = browser.new_context()  # the choice is kept, and no other test may see it
    with closing(alone), Visit(alone, address, "book/intro.html") as visit:
        colour = "getComputedStyle(document.body).backgroundColor"
        before = visit.page.evaluate(colour)
        for _ in range(3):
            visit.page.locator("button.theme-switch-button:visible").first.click()
            if visit.page.evaluate(colour) != before:
                return
        pytest.fail("three clicks on the theme button changed nothing")
