"""How a cache works: what one step of writing reads, and what it computes.

The one idea: of a text that grows, only the last column is new. The drawing has the page's own
words in it. The primitives are in `drawings`.
"""

from __future__ import annotations

from collections.abc import Sequence

from attncourse.plotting.drawings import INK, KEY, OUT, QUERY, VALUE, WIDEST, Drawing

__all__ = ["cache_step"]

_ROW = 28.0


def cache_step(words: Sequence[str]) -> Drawing:
    """Draw one step of writing with a cache: the last word is new, the others are kept.

    Parameters
    ----------
    words : sequence of str
        Two to five short ones, the newest last.

    Returns
    -------
    Drawing

    Raises
    ------
    ValueError
        For fewer than two words, more than five, or one that does not fit.
    """
    if not 2 <= len(words) <= 5:
        raise ValueError(f"words must be two to five, got {len(words)}")
    step, last = WIDEST / len(words), len(words) - 1
    kept = ", ".join(words[:-1])
    picture = Drawing(
        WIDEST,
        262,
        f"One step with a cache: keys and values of {kept} are kept; {words[-1]} adds a key and a "
        "value, and its query reads all of them.",
    )
    picture.label(step * last / 2, 12, "kept in the cache", room=step * last)
    picture.label(WIDEST - step / 2, 12, "new", bold=True, room=step)
    for i, word in enumerate(words):
        x, middle = i * step + 4, (i + 0.5) * step
        if i == last:
            picture.box(x, 26, step - 8, _ROW, word)
            picture.arrow((middle, 26 + _ROW), (middle, 72))
        else:
            picture.label(middle, 40, word, room=step - 8)
        picture.box(x, 74, step - 8, _ROW, "v", color=VALUE)
        picture.box(x, 110, step - 8, _ROW, "k", color=KEY)
        picture.arrow((WIDEST - step / 2, 178), (middle, 142), color=QUERY)
    picture.box(WIDEST - step + 4, 180, step - 8, _ROW, "q", color=QUERY)
    picture.label(4, 194, "q meets every k", color=QUERY, anchor="start", room=WIDEST - step)
    picture.arrow((WIDEST - step / 2, 210), (WIDEST - step / 2, 230), color=OUT)
    picture.box(WIDEST - step + 4, 232, step - 8, _ROW, "out", color=OUT)
    picture.label(4, 246, "weights times every v", color=INK, anchor="start", room=WIDEST - step)
    return picture
