"""The built pages in a real browser, with every request to another server blocked."""

import gzip
import os
import re
import shutil
import threading
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


class Visit:
    """One page, opened alone; remembers what went wrong and what was transferred."""

    def __init__(self, browser, base, name, viewport=WIDE, scheme="light"):
        self.context = browser.new_context(viewport=viewport, color_scheme=scheme)
        self.outside, self.failed, self.messages, self.responses = [], [], [], []
        self.base = base
        self.context.route(re.compile(r"^(?!blob:|data:)"), self._route)
        self.page = self.context.new_page()
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("requestfailed", lambda request: self.failed.append(request.url))
        self.page.on("response", lambda response: self.responses.append(response))
        self.page.goto(base + name, wait_until="load")
        self.page.wait_for_function(READY, timeout=20_000)

    def _route(self, route):
        if route.request.url.startswith(self.base):
            route.continue_()
        else:
            self.outside.append(route.request.url)
            route.abort()

    def _note(self, message):
        if message.type in ("error", "warning"):
            self.messages.append(message.text)

    def reach_late_figures(self):
        """Scroll to each figure that is loaded when the reader comes near."""
        for box in self.page.locator(".widget-waiting").all():
            box.scroll_into_view_if_needed()
        self.page.wait_for_function("!document.querySelector('.widget-waiting')", timeout=20_000)
        self.page.evaluate("window.scrollTo(0, 0)")

    def kilobytes(self):
        """Return what the page transferred, each response gzipped by itself."""
        self.page.wait_for_load_state("networkidle")
        return sum(len(gzip.compress(r.body())) for r in self.responses) / 1000

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


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
# KaTeX's thousands of spans are hidden from screen readers, which read its MathML instead.
AXE_CONTEXT = {"exclude": [[".katex-html"]]}
CLEAN = {"undrawn": [], "mathErrors": [], "emptyImages": [], "quietWidgets": 0, "overflow": 0}


@pytest.mark.parametrize("look", ["light", "dark", "narrow"])
@pytest.mark.parametrize("name", PAGES)
def test_page_is_whole_without_a_network(browser, address, name, look):
    viewport = NARROW if look == "narrow" else WIDE
    scheme = "dark" if look == "dark" else "light"
    with Visit(browser, address, name, viewport, scheme) as visit:
        visit.reach_late_figures()
        assert visit.page.evaluate(FAULTS) == CLEAN
        assert (visit.outside, visit.failed, visit.messages) == ([], [], [])
        assert [r.url for r in visit.responses if r.status >= 400] == []
        theme = visit.page.evaluate("document.documentElement.dataset.theme")
        assert theme == scheme


@pytest.mark.parametrize("name", PAGES)
def test_page_is_light(browser, address, name):
    with Visit(browser, address, name) as visit:
        at_once = visit.kilobytes()
        visit.reach_late_figures()
        assert at_once <= MAX_KILOBYTES
        assert visit.kilobytes() - at_once <= MAX_LATE_KILOBYTES


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_page_is_accessible(browser, address, name, scheme):
    from axe_playwright_python.sync_playwright import Axe

    # A dark page differs in its colours only.
    rules = {"runOnly": ["color-contrast"]} if scheme == "dark" else {}
    options = {"resultTypes": ["violations"], **rules}
    with Visit(browser, address, name, scheme=scheme) as visit:
        visit.reach_late_figures()
        found = Axe().run(visit.page, AXE_CONTEXT, options).response["violations"]
    grave = [
        (v["id"], [node["target"] for node in v["nodes"]][:3])
        for v in found
        if v["impact"] in ("serious", "critical") or v["id"] == "region"
    ]
    assert grave == []


ROOM_FOR_CODE = """() => [...document.querySelectorAll("div.cell_input pre")].map((pre) => {
  const line = document.createElement("span");
  line.textContent = "m".repeat(79);
  pre.append(line);
  const style = getComputedStyle(pre);
  const room = pre.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const over = line.getBoundingClientRect().width - room;
  line.remove();
  return pre.clientWidth ? over : 0;
})"""


@pytest.mark.parametrize("name", CHAPTERS)
def test_79_columns_of_code_fit_beside_both_sidebars(browser, address, name):
    with Visit(browser, address, name) as visit:
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


@pytest.mark.parametrize("name", ["book/notation.html", "book/capabilities.html", *CHAPTERS])
def test_what_is_wider_than_a_phone_scrolls_visibly(browser, address, name):
    with Visit(browser, address, name, NARROW) as visit:
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
@pytest.mark.parametrize("name", CHAPTERS)
def test_paper_shows_the_whole_chapter(browser, address, name, scheme):
    inside_the_margins = {"width": 680, "height": 1000}
    with Visit(browser, address, name, inside_the_margins, scheme) as visit:
        assert visit.page.locator(".bd-article details").count() > 1
        visit.page.emulate_media(media="print")
        assert visit.page.evaluate(ON_PAPER) == WHOLE


@pytest.mark.parametrize("name", ["book/notation.html", *CHAPTERS])
def test_without_scripts_the_page_says_what_is_missing(browser, address, name):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address + name, wait_until="load")
    lines = page.locator(".needs-script")
    missing = page.locator('script[type*="widget-view"]').count()
    missing += page.locator(".tex").count() > 0
    said = [lines.nth(i).is_visible() for i in range(lines.count())]
    colour = page.locator("body").evaluate("b => getComputedStyle(b).backgroundColor")
    context.close()
    assert said == [True] * missing
    assert colour == "rgb(253, 252, 249)", "the page has lost its colours"


@pytest.mark.parametrize("name", ["book/intro.html", "book/notation.html", *CHAPTERS])
def test_page_is_whole_from_disk(browser, name):
    require_book()
    with Visit(browser, Path(HTML).as_uri() + "/", name) as visit:
        visit.reach_late_figures()
        assert visit.page.evaluate(FAULTS) == CLEAN
        assert (visit.outside, visit.failed) == ([], [])


def test_search_finds_a_word(browser, address):
    with Visit(browser, address, "search.html?q=softmax") as visit:
        visit.page.wait_for_selector("#search-results li", timeout=20_000)
        assert visit.page.locator("#search-results li").count() >= 2
        assert (visit.outside, visit.failed) == ([], [])


def test_the_menu_opens_on_a_phone(browser, address):
    with Visit(browser, address, CHAPTERS[0], NARROW) as visit:
        links = visit.page.locator("nav.bd-links a:visible")
        assert links.count() == 0
        visit.page.locator("button.primary-toggle:visible").click()
        links.first.wait_for(state="visible", timeout=5000)
        assert links.count() > len(CHAPTERS)
        visit.page.keyboard.press("Escape")
        links.first.wait_for(state="hidden", timeout=5000)
        assert visit.messages == []


def test_the_theme_button_changes_the_look(browser, address):
    with Visit(browser, address, "book/intro.html") as visit:
        colour = "getComputedStyle(document.body).backgroundColor"
        before = visit.page.evaluate(colour)
        for _ in range(3):
            visit.page.locator("button.theme-switch-button:visible").first.click()
            if visit.page.evaluate(colour) != before:
                return
        pytest.fail("three clicks on the theme button changed nothing")
