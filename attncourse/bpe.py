"""Learn byte-pair merges: which neighbours deserve a symbol of their own.

The one idea: count every pair of neighbouring symbols, give the most frequent pair a new symbol,
and count again. Pairs are counted over distinct pieces of text, each weighted by how often it
occurs, and after a merge only the pieces that held the pair are counted anew. Using the merges,
to encode and to decode, is in `attncourse.text`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

Pair = tuple[int, int]

NUM_BYTES = 256

# GPT-2's rule with the standard library's classes: a contraction, or an optional space followed by
# letters, digits or other signs, or white space. Merges never cross a piece, so " dog" and "dog."
# cannot fuse into " dog.". Every character falls into one class: no text is lost.
PIECE = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def pieces(text: str) -> list[str]:
    """Cut text into the pieces inside which merges may happen.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    list of str
        Its pieces, in order; joined again they give `text`.

    Examples
    --------
    >>> pieces("the key's value, 42 times")
    ['the', ' key', "'s", ' value', ',', ' 42', ' times']
    """
    return PIECE.findall(text)


def merge_pair(ids: Sequence[int], pair: Pair, new_id: int) -> list[int]:
    """Replace each occurrence of a pair of neighbours by one new symbol.

    Parameters
    ----------
    ids : sequence of int
        Symbols, in order.
    pair : tuple of two int
        The neighbours to replace, from left to right, without overlap.
    new_id : int
        The symbol that stands for both.

    Returns
    -------
    list of int
        The shorter (or equal) sequence.

    Examples
    --------
    >>> merge_pair([1, 1, 1, 2], (1, 1), 9)
    [9, 1, 2]
    """
    merged, index = [], 0
    while index < len(ids):
        if tuple(ids[index : index + 2]) == pair:
            merged.append(new_id)
            index += 2
        else:
            merged.append(ids[index])
            index += 1
    return merged


def learn_merges(text: str, num_merges: int) -> list[Pair]:
    """Learn the merges of a byte-level byte-pair encoder, most frequent pair first.

    Parameters
    ----------
    text : str
        The text to learn from.
    num_merges : int
        How many merges to learn at most, 0 or more.

    Returns
    -------
    list of pairs of int
        Merge number i makes symbol 256 + i. Fewer than `num_merges` when no pair occurs twice any
        more. Ties go to the pair with the smaller ids: the result depends on `text` only.

    Notes
    -----
    **Source:** Sennrich, Haddow, Birch 2016, algorithm 1 (arXiv:1508.07909), on bytes instead of
    characters, and inside pieces that keep their leading space instead of an end-of-word sign.

    Examples
    --------
    >>> learn_merges("aaab aaab", 2)
    [(97, 97), (97, 98)]
    """
    table = _PairTable(text)
    merges: list[Pair] = []
    while len(merges) < num_merges:
        best = table.most_frequent()
        if best is None:
            break
        table.replace(best, NUM_BYTES + len(merges))
        merges.append(best)
    return merges


class _PairTable:
    """Counts of neighbouring pairs over distinct pieces, kept up to date merge by merge."""

    def __init__(self, text: str) -> None:
        counted = Counter(pieces(text))
        self.words = [list(piece.encode()) for piece in counted]
        self.times = list(counted.values())
        self.counts: Counter[Pair] = Counter()
        self.where: defaultdict[Pair, set[int]] = defaultdict(set)
        for index in range(len(self.words)):
            self._add(index, +1)

    def _add(self, index: int, sign: int) -> None:
        word = self.words[index]
        for pair in pairwise(word):
            self.counts[pair] += sign * self.times[index]
            if sign > 0:
                self.where[pair].add(index)
            elif not self.counts[pair]:
                del self.counts[pair]

    def most_frequent(self) -> Pair | None:
        """Return the most frequent pair, or None when no pair occurs twice."""
        most = max(self.counts.values(), default=0)
        return min(pair for pair, n in self.counts.items() if n == most) if most > 1 else None

    def replace(self, pair: Pair, new_id: int) -> None:
        """Merge a pair everywhere; only the pieces that hold it are counted anew."""
        for index in self.where.pop(pair):
            self._add(index, -1)
            self.words[index] = merge_pair(self.words[index], pair, new_id)
            self._add(index, +1)
