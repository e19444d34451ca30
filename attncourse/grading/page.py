"""A self-contained HTML page: no script, nothing loaded, every text escaped.

What goes into it is made by `attncourse.notebook.markup`.
"""

from __future__ import annotations

from typing import Any

from attncourse.notebook.markup import Html, element, join

__all__ = ["page"]

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;"
    "color:#222;background:#fff}table{border-collapse:collapse;width:100%}td,th{text-align:left;"
    "padding:.3rem .6rem;border-bottom:1px solid #bbb;vertical-align:top}td{overflow-wrap:anywhere}"
    "span{white-space:nowrap}pre{white-space:pre-wrap;"
    "overflow-wrap:anywhere;background:#f3f3f3;padding:.6rem}.yes{color:#00664d}.no{color:#a33c00}"
    "td.n{text-align:right;white-space:nowrap}@media(prefers-color-scheme:dark){body{color:#ddd;"
    "background:#121212}pre{background:#222}.yes{color:#3cc}.no{color:#f96}}"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(title: str, *content: Any) -> str:
    """Return a whole page."""
    head = join(
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        Html('<meta name="viewport" content="width=device-width,initial-scale=1">'),
        Html('<meta name="robots" content="noindex">'),
        element("title", title),
        element("style", Html(_STYLE)),
    )
    body = element("body", element("h1", title), *content)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>{body}</html>\n'
