"""Cut text into the pieces that BERT reads: WordPiece, from scratch.

The one idea: a vocabulary of whole words and of word parts, where ``##`` marks a part that goes on
inside a word. A word becomes the longest part that fits, then the longest that fits the rest. What
fits nowhere is ``[UNK]``, and that loses it. Learning such a vocabulary is in
`attncourse.text.wordpiece_learning`; the encoder of bytes that loses nothing is `attncourse.text`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from attncourse.text.special_tokens import check_text, split_special

PREFIX = "##"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

# The blocks that BERT calls Chinese characters: each of these signs becomes a word of its own.
# Japanese syllables and Korean are written elsewhere and stay together.
CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def basic_words(text: str, *, lower: bool = True) -> list[str]:
    """Cut text into words, signs and Chinese characters, as BERT does before WordPiece.

    Parameters
    ----------
    text : str
        Any text that UTF-8 can write.
    lower : bool, default True
        Write everything in lower case and without accents, as BERT's "uncased" models do.

    Returns
    -------
    list of str
        No word is empty, none holds white space. Control characters are gone, and so is the
        knowledge of where spaces were.

    Notes
    -----
    In this order: drop control characters, put spaces around Chinese characters, lower the case,
    strip accents (decompose, then drop the combining marks), split at white space, and make every
    punctuation sign a word. The result equals that of `transformers` for all of Unicode but for
    what its tables lack: signs that Unicode gained since they were made, and 256 rare Chinese
    characters. **Source:** Devlin et al. 2019 (arXiv:1810.04805) and the rules of
    the code that was released with it.

    Examples
    --------
    >>> basic_words("Naïve?  It's 注意!")
    ['naive', '?', 'it', "'", 's', '注', '意', '!']
    """
    check_text(text)
    text = text.translate(_CLEANED)
    if lower:
        # Character by character, as the reference does: a Σ at the end of a word is an ordinary σ.
        text = unicodedata.normalize("NFD", text.translate(_LOWER)).translate(_WITHOUT_MARKS)
    return text.translate(_APART).split()


class _Remembered(dict[int, str]):
    """What stands for each character: a rule, asked once for every character that occurs."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        super().__init__()
        self.rule = rule

    def __missing__(self, code: int) -> str:
        self[code] = self.rule(chr(code))
        return self[code]


def _cleaned(char: str) -> str:
    """Return what stands for one character: itself, a space, or nothing."""
    if char in " \t\n\r" or unicodedata.category(char) == "Zs":
        return " "
    if char == "\ufffd" or unicodedata.category(char) in ("Cc", "Cf", "Co"):
        return ""
    code = ord(char)
    return f" {char} " if any(first <= code <= last for first, last in CJK) else char


def _is_punctuation(char: str) -> bool:
    # BERT counts every ASCII sign, such as $ and ^, which Unicode calls symbols.
    ascii_sign = "!" <= char <= "~" and not char.isalnum()
    return ascii_sign or unicodedata.category(char).startswith("P")


_CLEANED, _LOWER = _Remembered(_cleaned), _Remembered(str.lower)
_WITHOUT_MARKS = _Remembered(lambda char: "" if unicodedata.category(char) == "Mn" else char)
_APART = _Remembered(lambda char: f" {char} " if _is_punctuation(char) else char)


@dataclass(frozen=True)
class WordPiece:
    """A vocabulary of words and word parts, and the greedy rule that reads text with it.

    Parameters
    ----------
    vocab : sequence of str
        The tokens in order of their ids. A token that starts with ``##`` continues a word.
    lower : bool, default True
        See `basic_words`.
    unknown : str, default "[UNK]"
        What stands for a word that the vocabulary cannot spell; it must be in `vocab`.
    special_tokens : sequence of str, optional
        The tokens that no text may spell by accident. Those of BERT that are in `vocab` by default.
    max_word : int, default 100
        Longer words become `unknown` without a search.

    Raises
    ------
    ValueError
        If a token occurs twice, or `unknown` or a special token is not in the vocabulary.

    Examples
    --------
    >>> pieces = WordPiece(("[UNK]", "un", "##believ", "##able", "##a"))
    >>> pieces.tokens("Unbelievable belief")
    ['un', '##believ', '##able', '[UNK]']
    >>> pieces.decode(pieces.encode("UNBELIEVABLE"))
    'unbelievable'
    """

    vocab: tuple[str, ...]
    lower: bool = True
    unknown: str = "[UNK]"
    special_tokens: tuple[str, ...] | None = None
    max_word: int = 100
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)
    _longest: int = field(init=False, repr=False, compare=False)
    _spelt: dict[str, list[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        vocab: Sequence[str] = tuple(self.vocab)
        ids = {token: number for number, token in enumerate(vocab)}
        if len(ids) != len(vocab):
            twice = next(token for i, token in enumerate(vocab) if ids[token] != i)
            raise ValueError(f"token {twice!r} occurs more than once in the vocabulary")
        special = self.special_tokens
        if special is None:
            special = tuple(token for token in SPECIAL if token in ids)
        for token in (self.unknown, *special):
            if token not in ids:
                raise ValueError(f"{token!r} is not in the vocabulary of {len(vocab)} tokens")
        object.__setattr__(self, "vocab", vocab)
        object.__setattr__(self, "special_tokens", tuple(special))
        object.__setattr__(self, "_ids", ids)
        object.__setattr__(self, "_longest", max(map(len, vocab)))
        object.__setattr__(self, "_spelt", {})

    @classmethod
    def from_file(cls, path: str | Path, *, lower: bool = True) -> Self:
        """Read a vocabulary file as BERT ships it: UTF-8, one token a line, ids from 0."""
        lines = Path(path).read_text(encoding="utf-8").split("\n")
        if lines[-1] == "":
            lines.pop()
        return cls(tuple(line.removesuffix("\r") for line in lines), lower=lower)

    def __len__(self) -> int:
        return len(self.vocab)

    def id_of(self, token: str) -> int:
        """Return the id of a token.

        Raises
        ------
        ValueError
            If it is not in the vocabulary.
        """
        if token not in self._ids:
            raise ValueError(f"{token!r} is not in the vocabulary of {len(self)} tokens")
        return self._ids[token]

    def tokens(self, text: str, *, allow_special: bool = False) -> list[str]:
        """Cut text into tokens of the vocabulary.

        Parameters
        ----------
        text : str
            Any text; an empty one gives no tokens.
        allow_special : bool, default False
            Read the special tokens in `text` as such. By default ``[MASK]`` in a text is what it
            looks like: a bracket, a word and a bracket.
        """
        found: list[str] = []
        allowed = self.special_tokens or () if allow_special else ()
        for piece, special in split_special(text, allowed):
            found += [piece] if special else self._plain_tokens(piece)
        return found

    def _plain_tokens(self, text: str) -> list[str]:
        words = basic_words(text, lower=self.lower)
        for word in set(words) - self._spelt.keys():
            self._spelt[word] = self._spell(word)
        return [token for word in words for token in self._spelt[word]]

    def _spell(self, word: str) -> list[str]:
        """Take the longest token that fits, again and again; give up on the whole word if none."""
        if len(word) > self.max_word:
            return [self.unknown]
        found: list[str] = []
        start = 0
        while start < len(word):
            prefix = PREFIX if start else ""
            for stop in range(min(len(word), start + self._longest), start, -1):
                if prefix + word[start:stop] in self._ids:
                    break
            else:
                return [self.unknown]
            found.append(prefix + word[start:stop])
            start = stop
        return found

    def encode(
        self, text: str, *, add_special: bool = False, allow_special: bool = False
    ) -> list[int]:
        """Turn text into ids.

        Parameters
        ----------
        text : str
            Any text.
        add_special : bool, default False
            Put the text between ``[CLS]`` and ``[SEP]``, as BERT wants it.
        allow_special : bool, default False
            As in `tokens`.

        Returns
        -------
        list of int
            Ids below ``len(self)``.
        """
        ids = [self._ids[token] for token in self.tokens(text, allow_special=allow_special)]
        return [self.id_of("[CLS]"), *ids, self.id_of("[SEP]")] if add_special else ids

    def decode(self, ids: Iterable[int], *, skip_special: bool = False) -> str:
        """Turn ids into text: parts are joined to words, words by one space.

        Case, accents, control characters and the original spaces are gone, and an unknown word
        stays ``[UNK]``: what comes back is what the model could see, not what was written.

        Parameters
        ----------
        ids : iterable of int
            Ids below ``len(self)``.
        skip_special : bool, default False
            Leave the special tokens out, ``[UNK]`` included.

        Raises
        ------
        ValueError
            If an id is not in the vocabulary.
        """
        ids = [int(number) for number in ids]
        wrong = [number for number in ids if not 0 <= number < len(self)]
        if wrong:
            raise ValueError(f"id {wrong[0]} is outside the vocabulary of {len(self)} tokens")
        hidden = self.special_tokens or () if skip_special else ()
        found = [self.vocab[number] for number in ids if self.vocab[number] not in hidden]
        return " ".join(found).replace(f" {PREFIX}", "")
