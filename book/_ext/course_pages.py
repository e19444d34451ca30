"""Finish each page: run buttons, descriptions, and nothing loaded that the course does not use."""

import json
import re
import shutil
from html import escape
from pathlib import Path

from docutils import nodes

UNUSED_SCRIPTS = ("sphinx-thebe", "searchtools", "language_data", "searchindex", "mathjax")
UNUSED_FILES = (
    "sphinx-thebe*",
    "scripts/fontawesome.js*",
    "scripts/*.map",
    "styles/*.map",
    "vendor/fontawesome",
    "sbt-webpack-macros.html",
    "webpack-macros.html",
    "locales",
    "images/logo_*",
)
KEPT_PAGES = ("index", "genindex", "search", "404")
# The icons are drawn by the course's own style sheet; a face that stays is asked for now and then.
ICON_FACE = re.compile(r"@font-face\s*\{[^}]*vendor/fontawesome[^}]*\}")
ICON = '<span class="run-icon run-{0}" aria-hidden="true"></span>'
FIGURE = re.compile(r'<img [^>]*src="[^"]*_images/[^>]*>')
WIDGET = re.compile(r'(?s)<script type="application/vnd\.jupyter\.widget-view\+json">.*?</script>')
NEEDS_SCRIPT = '<noscript><p class="needs-script">{}</p></noscript>'
WIDGET_IS_SILENT = "Here stands a figure that reacts to you. It needs JavaScript, which is off."


def _name(asset):
    return str(getattr(asset, "filename", asset) or "")


def _body(asset):
    return getattr(asset, "attributes", {}).get("body", "")


def trim_assets(context):
    """Drop scripts and styles that the page does not need, and every duplicate."""
    seen, kept = set(), []
    for script in context.get("script_files", []):
        key = (_name(script), _body(script))
        unused = any(name in key[0] for name in UNUSED_SCRIPTS) or "THEBE" in key[1]
        if unused or key in seen:
            continue
        seen.add(key)
        kept.append(script)
    context["script_files"] = kept
    context["css_files"] = [c for c in context["css_files"] if "sphinx-thebe" not in _name(c)]


def first_sentences(doctree, limit=200):
    """Return the first paragraph of a page as a description, cut at a word."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if len(text) > 40 and not isinstance(paragraph.parent, nodes.Admonition):
            cut = text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " …"
            return cut.replace("\\", "")
    return ""


def meta_tags(app, pagename, context, doctree):
    """Describe the page to search engines and to whoever shares its link."""
    description = (doctree is not None and first_sentences(doctree)) or app.config.book_description
    address = app.course_address.pages
    root = pagename == app.config.root_doc
    title = app.config.html_title if root else re.sub("<[^>]+>", "", context.get("title", ""))
    pairs = {
        "og:title": title,
        "og:description": app.config.book_description if root else description,
        "og:type": "website" if root else "article",
        "og:url": f"{address}{pagename}.html",
        "og:site_name": app.config.html_title,
        "og:image": f"{address}_static/social.png",
    }
    tags = [f'<meta name="description" content="{escape(pairs["og:description"])}" />']
    tags += [f'<meta property="{k}" content="{escape(v)}" />' for k, v in pairs.items()]
    tags.append('<meta name="twitter:card" content="summary_large_image" />')
    context["metatags"] = context.get("metatags", "") + "\n".join(tags)


def run_bar(app, pagename, context):
    """Return the buttons under a chapter's title: Colab, Binder and the notebook itself."""
    path, address = f"{pagename}.ipynb", app.course_address
    source = context["pathto"](f"_sources/{path}", 1)
    links = [
        ("colab", "Run in Colab", address.colab(path), ""),
        ("binder", "Run in Binder", address.binder(path), ""),
        ("download", "Download notebook", source, " download"),
    ]
    items = "".join(
        f'<a class="run-link" href="{escape(url)}"{extra}>{ICON.format(kind)}{label}</a>'
        for kind, label, url, extra in links
    )
    return f'<div class="run-bar d-print-none">{items}</div>'


def on_page(app, pagename, templatename, context, doctree):
    """Change one page's context just before it is written."""
    meta_tags(app, pagename, context, doctree)
    trim_assets(context)
    context["course_repository"] = app.course_address.repository
    source = context.get("page_source_suffix", "")
    if pagename in app.env.all_docs:
        path = Path(app.env.doc2path(pagename)).relative_to(app.srcdir).as_posix()
        source = Path(path).suffix
        context["course_edit"] = app.course_address.edit(path)
    if "body" in context:
        # A list whose entries are no list items: screen readers announce it as empty.
        context["body"] = context["body"].replace(
            '<div role="list" class="citation', '<div class="citation'
        )
    if source == ".ipynb" and "body" in context:
        bar = run_bar(app, pagename, context)
        body = FIGURE.sub(r'<div class="figure-box">\g<0></div>', context["body"])
        body = WIDGET.sub(r"\g<0>" + NEEDS_SCRIPT.format(WIDGET_IS_SILENT), body)
        context["body"] = body.replace("</h1>", "</h1>\n" + bar, 1)


def write_404(app):
    """Write the page that a static host shows for a wrong address."""
    template = Path(app.srcdir, "book", "_templates", "404.html").read_text(encoding="utf8")
    page = template.replace("{{ home }}", escape(app.course_address.pages))
    page = page.replace("{{ issues }}", escape(app.course_address.repository + "/issues"))
    Path(app.outdir, "404.html").write_text(page, encoding="utf8")


def remove_old_pages(app):
    """Remove pages that an earlier build wrote and that are no longer part of the book."""
    kept = {f"{name}.html" for name in (*app.env.all_docs, *KEPT_PAGES)}
    for page in Path(app.outdir).rglob("*.html"):
        name = page.relative_to(app.outdir).as_posix()
        if name not in kept and not name.startswith("_static/"):
            page.unlink()


def on_finish(app, exception):
    """Remove files that no page loads."""
    if exception or app.builder.format != "html":
        return
    remove_old_pages(app)
    static = Path(app.outdir, "_static")
    for pattern in UNUSED_FILES:
        for path in static.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for sheet in static.glob("styles/*.css"):
        text = sheet.read_text(encoding="utf8")
        if (lean := ICON_FACE.sub("", text)) != text:
            sheet.write_text(lean, encoding="utf8")
    write_404(app)
    record = {"execution_key": app.config.course_execution_key}
    Path(app.outdir, ".buildkey.json").write_text(json.dumps(record), encoding="utf8")


def setup(app):
    """Register with Sphinx."""
    app.add_config_value("book_description", "", "html")
    app.connect("html-page-context", on_page, priority=990)
    app.connect("build-finished", on_finish, priority=990)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
