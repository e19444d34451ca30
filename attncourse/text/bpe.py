"""Learn byte-pair merges: which neighbours deserve a symbol of their own.

The one idea: count every pair of neighbouring symbols, give the most frequent pair a new symbol,
and count again: that is `learn_merges_naively`. `learn_merges` gives the same merges sooner: pairs
are counted over distinct pieces of text, each weighted by how often it occurs, and after a merge
only the pieces that held the pair are counted anew. Using the merges,
to encode and to decode, is in `attncourse.text`.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from attncourse.text.special_tokens import check_text

Pair = tuple[int, int]

NUM_BYTES = 256
_GONE = -1

# GPT-2's rule with the standard library's classes: a contraction, or an optional space followed by
# letters, digits or other signs, or white space. Merges never cross a piece, so " dog" and "dog."
# cannot fuse into " dog.". Every character falls into one class: no text is lost.
PIECE = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def pieces(text: str) -> list[str]:
    """Cut text into the pieces inside which merges may happen.

    Parameters
    ----------
    text : str
        Any text that UTF-8 can write.

    Returns
    -------
    list of str
        Its pieces, in order; joined again they give `text`.

    Examples
    --------
    >>> pieces("the key's value, 42 times")
    ['the', ' key', "'s", ' value', ',', ' 42', ' times']
    """
    check_text(text)
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


def merge_all(ids: Sequence[int], rank: Mapping[Pair, int]) -> list[int]:
    """Apply every merge that fits, the one that was learnt first first.

    Parameters
    ----------
    ids : sequence of int
        Symbols, in order.
    rank : mapping of pairs to int
        The number of each merge; merge number i makes symbol 256 + i of earlier symbols.

    Returns
    -------
    list of int
        The symbols when no merge fits any more.

    Notes
    -----
    The pairs wait in a heap, so n symbols take about n log n steps however long a word is; looking
    for the best pair again after each merge takes n for each. A symbol that was merged away stays
    in the list with a gap behind it, and its pairs in the heap are skipped.

    Examples
    --------
    >>> merge_all([97, 98, 97, 98, 99], {(97, 98): 0, (256, 99): 1})
    [256, 257]
    """
    symbols = list(ids)
    after = [*range(1, len(symbols)), len(symbols)]  # the next symbol that is still there
    before = list(range(-1, len(symbols) - 1))
    heap = [(rank[p], i, p) for i, p in enumerate(pairwise(symbols)) if p in rank]
    heapq.heapify(heap)
    while heap:
        number, left, pair = heapq.heappop(heap)
        right = after[left]
        if right == len(symbols) or (symbols[left], symbols[right]) != pair:
            continue
        symbols[left], symbols[right] = NUM_BYTES + number, _GONE
        after[left] = after[right]
        if after[left] < len(symbols):
            before[after[left]] = left
        for place in (before[left], left):
            neighbours = _pair_at(symbols, after, place)
            if neighbours in rank:
                heapq.heappush(heap, (rank[neighbours], place, neighbours))
    return [symbol for symbol in symbols if symbol != _GONE]


def _pair_at(symbols: list[int], after: list[int], place: int) -> Pair:
    """Return the pair that begins at a place; a pair that no merge knows if there is none."""
    if place < 0 or after[place] == len(symbols):
        return (_GONE, _GONE)
    return (symbols[place], symbols[after[place]])


def learn_merges_naively(text: str, num_merges: int) -> list[Pair]:
    """Learn merges as the algorithm reads: count all pairs, merge the most frequent, repeat.

    Parameters
    ----------
    text, num_merges
        As in `learn_merges`, which gives the same merges and counts less.

    Returns
    -------
    list of pairs of int

    Examples
    --------
    >>> learn_merges_naively("aaab aaab", 2)
    [(97, 97), (97, 98)]
    """
    words = [list(piece.encode()) for piece in pieces(text)]
    merges: list[Pair] = []
    while len(merges) < num_merges:
        counts = Counter(pair for word in words for pair in pairwise(word))
        most = max(counts.values(), default=0)
        if most < 2:
            break
        best = min(pair for pair in counts if counts[pair] == most)
        words = [merge_pair(word, best, NUM_BYTES + len(merges)) for word in words]
        merges.append(best)
    return merges


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
