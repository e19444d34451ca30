"""Split a text at its special tokens, as all tokenizers of the course do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator


def split_special(text: str, special_tokens: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a text in order, and of each whether it is a special token.

    Parameters
    ----------
    text : str
        Any text. Where two special tokens begin at one place, the longer one counts.
    special_tokens : collection of str
        None of them: the whole text is one piece.

    Raises
    ------
    TypeError
        When `text` is no str.
    ValueError
        When it holds half a character: a lone surrogate.

    Examples
    --------
    >>> list(split_special("a<end>b", ("<end>",)))
    [('a', False), ('<end>', True), ('b', False)]
    """
    check_text(text)
    if not special_tokens:
        yield text, False
        return
    longest_first = sorted(special_tokens, key=len, reverse=True)
    for piece in re.split("(" + "|".join(map(re.escape, longest_first)) + ")", text):
        yield piece, piece in special_tokens


def check_text(text: str) -> None:
    """Check that a text is one: str, and nothing that UTF-8 cannot write.

    Raises
    ------
    TypeError, ValueError
        As in `split_special`.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}")
    lone = re.search(r"[\ud800-\udfff]", text)
    if lone:
        raise ValueError(
            f"text must be what UTF-8 can write, got half a character, {lone[0]!a}, "
            f"at position {lone.start()}"
        )
