"""HTML in which every text is escaped.

The one idea: markup is a type of its own. What is not `Html` is text and is escaped, so nobody's
text can become markup by somebody forgetting a call.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["Html", "element", "escaped", "join", "table", "visible"]


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


def element(tag: str, /, *content: Any, css: str = "", **attributes: str) -> Html:
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


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]], **cell: str) -> Html:
    """Return a table; attributes of its cells may be given by name."""
    top = element("tr", *(element("th", title, **cell) for title in head))
    body = [element("tr", *(element("td", each, **cell) for each in row)) for row in rows]
    return element("table", element("thead", top), element("tbody", *body))
