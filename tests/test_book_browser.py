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
MAX_KILOBYTES = 600
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
        assert visit.page.evaluate(FAULTS) == CLEAN
        assert (visit.outside, visit.failed, visit.messages) == ([], [], [])
        assert [r.url for r in visit.responses if r.status >= 400] == []
        theme = visit.page.evaluate("document.documentElement.dataset.theme")
        assert theme == scheme


@pytest.mark.parametrize("name", PAGES)
def test_page_is_light(browser, address, name):
    with Visit(browser, address, name) as visit:
        assert visit.kilobytes() <= MAX_KILOBYTES


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_page_is_accessible(browser, address, name, scheme):
    from axe_playwright_python.sync_playwright import Axe

    # A dark page differs in its colours only.
    rules = {"runOnly": ["color-contrast"]} if scheme == "dark" else {}
    options = {"resultTypes": ["violations"], **rules}
    with Visit(browser, address, name, scheme=scheme) as visit:
        found = Axe().run(visit.page, AXE_CONTEXT, options).response["violations"]
    grave = [
        (v["id"], [node["target"] for node in v["nodes"]][:3])
        for v in found
        if v["impact"] in ("serious", "critical")
    ]
    assert grave == []


@pytest.mark.parametrize("name", ["book/intro.html", "book/notation.html", *CHAPTERS])
def test_page_is_whole_from_disk(browser, name):
    require_book()
    with Visit(browser, Path(HTML).as_uri() + "/", name) as visit:
        assert visit.page.evaluate(FAULTS) == CLEAN
        assert (visit.outside, visit.failed) == ([], [])


def test_search_finds_a_word(browser, address):
    with Visit(browser, address, "search.html?q=softmax") as visit:
        visit.page.wait_for_selector("#search-results li", timeout=20_000)
        assert visit.page.locator("#search-results li").count() >= 2
        assert (visit.outside, visit.failed) == ([], [])


def test_the_theme_button_changes_the_look(browser, address):
    with Visit(browser, address, "book/intro.html") as visit:
        colour = "getComputedStyle(document.body).backgroundColor"
        before = visit.page.evaluate(colour)
        for _ in range(3):
            visit.page.locator("button.theme-switch-button:visible").first.click()
            if visit.page.evaluate(colour) != before:
                return
        pytest.fail("three clicks on the theme button changed nothing")
