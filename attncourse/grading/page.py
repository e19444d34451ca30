"""A self-contained HTML page: no script, nothing loaded, every text escaped.

The one idea: markup is a type of its own. What is not `Html` is text and is escaped, so learner
text cannot become markup by somebody forgetting a call.
"""

from __future__ import annotations

import html
import unicodedata
from typing import Any

__all__ = ["Html", "element", "join", "page", "visible"]

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


class Html(str):
    """Markup that is safe to put into a page."""


def visible(text: Any) -> str:
    """Return text without what can hide or reorder other text; line ends and tabs stay."""
    return "".join(
        letter
        if letter in "\n\t" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co")
        else "\N{REPLACEMENT CHARACTER}"
        for letter in str(text)
    )


def escaped(content: Any) -> Html:
    """Return markup as it is and anything else as escaped text."""
    return content if isinstance(content, Html) else Html(html.escape(visible(content)))


def element(tag: str, *content: Any, css: str = "", **attributes: str) -> Html:
    """Return an element.

    Examples
    --------
    >>> element("p", "1 < 2", css="n")
    '<p class="n">1 &lt; 2</p>'
    """
    named = {**({"class": css} if css else {}), **attributes}
    words = "".join(f' {key}="{html.escape(value, quote=True)}"' for key, value in named.items())
    return Html(f"<{tag}{words}>{join(*content)}</{tag}>")


def join(*content: Any) -> Html:
    """Return one piece of markup of several, each text escaped."""
    return Html("".join(map(escaped, content)))


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
