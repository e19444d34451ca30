"""Read text as GPT-2 and SmolLM2 do: their merges, their spelling of bytes, their way of cutting.

New here, compared with `attncourse.text`: vocabularies that others have learnt. In their files each
byte is written as a printable character, the ids follow the file and not the merges, and text is
cut by Unicode's classes of characters before any merge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import regex

from attncourse.text.bpe import NUM_BYTES, Pair, merge_all
from attncourse.text.special_tokens import split_special

# GPT-2's rule. In this library \s is Unicode's white space; in `re` it holds four characters more.
PIECE = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
DIGIT = regex.compile(r"(\p{N})")


def _printable_bytes() -> list[str]:
    """Return GPT-2's character for each byte: itself where it can be seen, else one from 256 on."""
    seen = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = iter(range(256, 512))
    return [chr(byte) if byte in seen else chr(next(hidden)) for byte in range(256)]


CHARACTERS = _printable_bytes()
BYTES = {character: byte for byte, character in enumerate(CHARACTERS)}


def cut(text: str, *, digits_alone: bool = False) -> list[str]:
    """Cut text into the pieces inside which merges may happen.

    Parameters
    ----------
    text : str
        Any text.
    digits_alone : bool, default False
        Make every digit a piece of its own first, as SmolLM2 does.

    Returns
    -------
    list of str
        Joined again they give `text`.

    Examples
    --------
    >>> cut("it's  42"), cut("it's  42", digits_alone=True)
    (['it', "'s", ' ', ' 42'], ['it', "'s", '  ', '4', '2'])
    """
    parts = DIGIT.split(text) if digits_alone else [text]
    return [piece for part in parts for piece in PIECE.findall(part)]


class BytePairs:
    """A byte-level byte-pair tokenizer with a vocabulary that was learnt elsewhere.

    Parameters
    ----------
    vocab : mapping of str to int
        Tokens in GPT-2's spelling of bytes, and their ids.
    merges : sequence of pairs of str
        The pairs to merge, the most important first.
    special_tokens : sequence of str, optional
        Tokens of `vocab` that no text may spell by accident.
    digits_alone : bool, default False
        As in `cut`.

    Raises
    ------
    ValueError
        When a special token is not in the vocabulary, or a merge joins what does not exist yet or
        makes what exists already.

    Notes
    -----
    A byte that the vocabulary lacks is dropped, as the reference tokenizers do: SmolLM2's has no
    token for some control characters.
    """

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        special_tokens: Sequence[str] = (),
        *,
        digits_alone: bool = False,
    ) -> None:
        unknown = [token for token in special_tokens if token not in vocab]
        if unknown:
            raise ValueError(f"special token {unknown[0]!r} is not in the vocabulary")
        self.vocab, self.special_tokens = dict(vocab), tuple(special_tokens)
        self.digits_alone = digits_alone
        self._tokens = {number: token for token, number in self.vocab.items()}
        # Inside, a token is a byte or 256 + the number of the merge that makes it.
        inside = {
            character: byte for byte, character in enumerate(CHARACTERS) if character in vocab
        }
        self._rank: dict[Pair, int] = {}
        for number, (left, right) in enumerate(merges):
            if (
                not {left, right} <= inside.keys()
                or left + right not in vocab
                or left + right in inside
            ):
                raise ValueError(
                    f"merge {number} of {left!r} and {right!r} does not fit the others"
                )
            self._rank[inside[left], inside[right]] = number
            inside[left + right] = NUM_BYTES + number
        self._known_bytes = {BYTES[token] for token in inside if len(token) == 1}
        self._outside = {symbol: vocab[token] for token, symbol in inside.items()}
        self._cache: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return max(self._tokens) + 1

    def special_id(self, token: str) -> int:
        """Return the id of a special token.

        Raises
        ------
        ValueError
            If there is no such special token.
        """
        if token not in self.special_tokens:
            raise ValueError(f"{token!r} is not one of the special tokens {self.special_tokens}")
        return self.vocab[token]

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        """Turn text into ids.

        Parameters
        ----------
        text : str
            Any text that UTF-8 can write.
        allow_special : bool, default False
            Read the special tokens in `text` as such. By default they are ordinary text.

        Returns
        -------
        list of int
            An empty text gives an empty list.
        """
        ids: list[int] = []
        for piece, special in split_special(text, self.special_tokens if allow_special else ()):
            ids += [self.vocab[piece]] if special else self._encode_plain(piece)
        return ids

    def _encode_plain(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in cut(text, digits_alone=self.digits_alone):
            if piece not in self._cache:
                self._cache[piece] = self._encode_piece(piece)
            ids += self._cache[piece]
        return ids

    def _encode_piece(self, piece: str) -> list[int]:
        """Apply the merges to one piece, the most important first."""
        symbols = merge_all([b for b in piece.encode() if b in self._known_bytes], self._rank)
        return [self._outside[symbol] for symbol in symbols]

    def decode(self, ids: Iterable[int], *, errors: str = "replace") -> str:
        """Turn ids into text.

        Parameters
        ----------
        ids : iterable of int
            Ids below ``len(self)``.
        errors : str, default "replace"
            What to do where the bytes are not UTF-8, as in `bytes.decode`.

        Raises
        ------
        ValueError
            If an id is not in the vocabulary.
        """
        return b"".join(map(self._bytes_of, ids)).decode(errors=errors)

    def show(self, ids: Iterable[int]) -> list[str]:
        """Write each token by itself, bytes that are no whole character as hexadecimal escapes."""
        return [self._bytes_of(number).decode(errors="backslashreplace") for number in ids]

    def _bytes_of(self, number: Any) -> bytes:
        token = self._tokens.get(int(number))
        if token is None:
            raise ValueError(f"id {int(number)} is outside the vocabulary of {len(self)} tokens")
        if token in self.special_tokens:
            return token.encode()
        return bytes(BYTES[character] for character in token)
