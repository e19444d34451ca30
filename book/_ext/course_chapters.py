"""List the chapters as links, each with what it executes; put drawings into pages."""

import json
import tomllib
from html import escape
from pathlib import Path

from course_claims import chapter_docs
from docutils import nodes
from sphinx.util.docutils import SphinxDirective


def title_of(notebook):
    """Return the title of a chapter without its number, from its first Markdown cell."""
    cells = json.loads(Path(notebook).read_text(encoding="utf8"))["cells"]
    text = next("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    return text.strip().splitlines()[0].lstrip("# ").lstrip("0123456789 ").strip()


class ChapterList(SphinxDirective):
    """Write the list; the argument is the TOML file with parts and chapters."""

    required_arguments = 1

    def run(self):
        """Return the list as HTML nodes with real references."""
        path = Path(self.env.doc2path(self.env.docname)).parent / self.arguments[0]
        with path.open("rb") as file:
            parts = tomllib.load(file)["part"]
        docs = chapter_docs(self.env)
        for source in (path, *(self.env.doc2path(doc) for doc in docs.values())):
            self.env.note_dependency(str(source))
        return [node for part in parts for node in self.part(part, docs)]

    def part(self, part, docs):
        """Return one part's heading and its chapters."""
        heading = nodes.rubric("", part["title"], classes=["part-title"])
        items = nodes.bullet_list(classes=["chapter-list"])
        for chapter in part["chapters"]:
            items += self.chapter(chapter, docs[chapter["number"]])
        return [heading, items]

    def chapter(self, chapter, doc):
        """Return one chapter: number, question as a link, and what it shows."""
        title = title_of(self.env.doc2path(doc))
        uri = self.env.app.builder.get_relative_uri(self.env.docname, doc)
        paragraph = nodes.paragraph("", "")
        paragraph += nodes.inline("", f"{chapter['number']:02d}", classes=["chapter-number"])
        paragraph += nodes.reference(
            "", title, refuri=uri, internal=True, classes=["chapter-question"]
        )
        paragraph += nodes.inline("", chapter["evidence"], classes=["chapter-evidence"])
        return nodes.list_item("", paragraph, classes=["chapter"])


class SvgFigure(SphinxDirective):
    """Write a hand-drawn SVG file into the page, so that it follows the page's colours."""

    required_arguments = 1

    def run(self):
        """Return the file's text as raw HTML."""
        path = Path(self.env.doc2path(self.env.docname)).parent / self.arguments[0]
        self.env.note_dependency(str(path))
        caption = "\n".join(self.content)
        note = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
        html = f'<figure class="drawn-figure">{path.read_text(encoding="utf8")}{note}</figure>'
        return [nodes.raw("", html, format="html")]

    has_content = True


def setup(app):
    """Register with Sphinx."""
    app.add_directive("chapter-list", ChapterList)
    app.add_directive("svg-figure", SvgFigure)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
