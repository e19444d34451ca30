"""What the tests of the built book share: where it is, its pages, and a parser for them."""

import sys
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HTML = ROOT / "_build" / "html"
for folder in ("tools", "book/_ext"):
    if str(ROOT / folder) not in sys.path:
        sys.path.insert(0, str(ROOT / folder))

VOID = {"img", "br", "hr", "meta", "link", "input", "source", "path", "rect", "wbr", "col"}


@cache
def what_is_wrong():
    """Say why there is no book to look at; nothing where one is built from the present sources."""
    from build_book import OUTCOME, is_fresh
    from outcome import read

    if is_fresh():
        return ""
    words = read(OUTCOME).last_words() if OUTCOME.exists() else ["the book is not built"]
    if not words:
        words = ["the built book is older than its sources"]
    return "\n".join([*words, "run `make book SERVE=0` and read its last lines"])


def require_book():
    """Skip what needs the book where there is none: one test of test_book.py fails for all."""
    if what_is_wrong():
        pytest.skip("needs the book, see test_the_book_is_built")


def page_names():
    """List the pages, relative to the book's folder; empty while the book is not built."""
    return sorted(
        f.relative_to(HTML).as_posix()
        for f in HTML.rglob("*.html")
        if "_static" not in f.parts and "reports" not in f.parts
    )


@dataclass
class Page(HTMLParser):
    """The tags and ids of a page, and the text of its article outside code and maths."""

    path: Path
    tags: list = field(default_factory=list)  # (tag, attributes)
    ids: set = field(default_factory=set)
    prose: list = field(default_factory=list)
    _stack: list = field(default_factory=list)

    def __post_init__(self):
        HTMLParser.__init__(self)
        self.feed(self.path.read_text(encoding="utf8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if attributes.get("id"):
            self.ids.add(attributes["id"])
        if tag not in VOID:
            self._stack.append((tag, attributes.get("class") or ""))

    def handle_endtag(self, tag):
        while self._stack and tag not in VOID:
            if self._stack.pop()[0] == tag:
                break

    def handle_data(self, data):
        inside = {tag for tag, _ in self._stack}
        classes = " ".join(c for _, c in self._stack).split()
        if "article" in inside and not inside & {"pre", "code", "script", "style"}:
            if "tex" not in classes:
                self.prose.append(data)

    def find(self, tag):
        """Return the attributes of all tags of a kind."""
        return [attributes for name, attributes in self.tags if name == tag]


@cache
def read_page(name):
    """Parse one page of the book."""
    return Page(HTML / name)
