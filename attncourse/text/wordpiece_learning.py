"""Learn a WordPiece vocabulary: which neighbours deserve to become one part.

The one idea: like byte-pair encoding, but a pair is judged by how much more often it occurs than
its two halves make you expect, not by its count alone. Reading text with the vocabulary is in
`attncourse.text.wordpiece`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

from attncourse.text.wordpiece import PREFIX, SPECIAL, WordPiece, basic_words

Pair = tuple[str, str]


def train_wordpiece(
    text: str,
    vocab_size: int,
    special_tokens: Sequence[str] = SPECIAL,
    *,
    lower: bool = True,
) -> WordPiece:
    """Learn a WordPiece vocabulary from a text.

    Parameters
    ----------
    text : str
        The text to learn from.
    vocab_size : int
        Size of the vocabulary to reach: special tokens, single characters, and parts joined of
        them. Training ends earlier when joining gains nothing.
    special_tokens : sequence of str, optional
        Tokens that come first; ``[UNK]`` must be one of them.
    lower : bool, default True
        See `attncourse.text.wordpiece.basic_words`.

    Returns
    -------
    WordPiece
        It depends on `text` and the settings only: of equal pairs the alphabetically first wins.

    Raises
    ------
    ValueError
        If `vocab_size` has no room for the special tokens and the characters of `text`.

    Notes
    -----
    A pair that occurs n times, of parts that occur a and b times among N, gains n log(n N / (a b)):
    what joining it adds to the log-likelihood of the text, to first order, when parts are drawn
    independently. Schuster and Nakajima ask for the unit that raises the likelihood most; the
    program that made BERT's own vocabulary was not released, so this is our reading.
    **Source:** Schuster and Nakajima 2012, "Japanese and Korean voice search"; Wu et al. 2016,
    section 4.1 (arXiv:1609.08144), who refer to it.

    Examples
    --------
    >>> pieces = train_wordpiece("low low low lower lowest " * 4, 14)
    >>> pieces.vocab[-2:]
    ('##ow', 'low')
    """
    words = Counter(basic_words(text, lower=lower))
    letters = sorted({letter for word in words for letter in _letters(word)})
    vocab = [*special_tokens, *letters]
    if len(vocab) > vocab_size:
        raise ValueError(
            f"vocab_size {vocab_size} is too small: {len(special_tokens)} special tokens and "
            f"{len(letters)} characters need {len(vocab)}"
        )
    table = _PartTable(words)
    while len(vocab) < vocab_size and (pair := table.best()) is not None:
        joined = table.join(pair)
        if joined not in vocab:  # the same part can come about in two ways
            vocab.append(joined)
    return WordPiece(tuple(vocab), lower=lower, special_tokens=tuple(special_tokens))


def _letters(word: str) -> list[str]:
    """Return the characters of a word, all but the first marked as continuing it."""
    return [word[0], *(PREFIX + letter for letter in word[1:])]


class _PartTable:
    """Counts of parts and of neighbouring parts, kept up to date join by join."""

    def __init__(self, words: Counter[str]) -> None:
        self.words = [_letters(word) for word in words]
        self.times = list(words.values())
        self.parts: Counter[str] = Counter()
        self.pairs: Counter[Pair] = Counter()
        self.where: defaultdict[Pair, set[int]] = defaultdict(set)
        for index in range(len(self.words)):
            self._add(index, +1)

    def _add(self, index: int, sign: int) -> None:
        word, times = self.words[index], sign * self.times[index]
        for part in word:
            self.parts[part] += times
        for pair in pairwise(word):
            self.pairs[pair] += times
            if sign > 0:
                self.where[pair].add(index)
            elif not self.pairs[pair]:
                del self.pairs[pair]

    def best(self) -> Pair | None:
        """Return the pair that gains most, or None when no pair that occurs twice gains."""
        total = self.parts.total()
        most, best = 0.0, None
        for pair, n in self.pairs.items():
            gain = n * math.log(n * total / (self.parts[pair[0]] * self.parts[pair[1]]))
            if n > 1 and (gain > most or (gain == most and best is not None and pair < best)):
                most, best = gain, pair
        return best

    def join(self, pair: Pair) -> str:
        """Join a pair everywhere, and return the new part."""
        joined = pair[0] + pair[1].removeprefix(PREFIX)
        for index in self.where.pop(pair):
            self._add(index, -1)
            self.words[index] = _joined(self.words[index], pair, joined)
            self._add(index, +1)
        return joined


def _joined(word: list[str], pair: Pair, joined: str) -> list[str]:
    """Replace each occurrence of a pair of neighbours, from left to right."""
    result, index = [], 0
    while index < len(word):
        found = tuple(word[index : index + 2]) == pair
        result.append(joined if found else word[index])
        index += 2 if found else 1
    return result
