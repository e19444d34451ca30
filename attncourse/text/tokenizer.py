"""Turn text into integers and back: a byte-level byte-pair encoder from scratch.

The one idea: every text is bytes, and a list of merges (learnt in `attncourse.text.bpe`) shortens
them. Frequent words become one integer, rare words become several, and no text is ever unknown.
Left out on purpose: Unicode normalisation, saving to disk, and every trick that only makes it
faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from attncourse.text.bpe import NUM_BYTES, Pair, learn_merges, merge_all, pieces
from attncourse.text.special_tokens import split_special


@dataclass(frozen=True)
class Tokenizer:
    """A vocabulary of byte strings, and the order in which pairs were merged.

    Parameters
    ----------
    merges : tuple of pairs of int
        Merge number i makes symbol 256 + i out of two earlier symbols.
    special_tokens : tuple of str, optional
        Texts with an id of their own after the merges, such as ``"<pad>"``.

    Notes
    -----
    **Source:** Sennrich, Haddow, Birch 2016, section 3.2 (arXiv:1508.07909) for the merges over
    characters; Radford et al. 2019, section 2.2, for starting from bytes instead.
    """

    merges: tuple[Pair, ...]
    special_tokens: tuple[str, ...] = ()
    vocab: tuple[bytes, ...] = field(init=False, repr=False, compare=False)
    _rank: dict[Pair, int] = field(init=False, repr=False, compare=False)
    _cache: dict[str, list[int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        vocab = [bytes([value]) for value in range(NUM_BYTES)]
        for number, (left, right) in enumerate(self.merges):
            if not (0 <= left < len(vocab) and 0 <= right < len(vocab)):
                raise ValueError(
                    f"merge {number} joins symbols {left} and {right}; "
                    f"only 0 to {len(vocab) - 1} exist at that point"
                )
            vocab.append(vocab[left] + vocab[right])
        if len(set(self.special_tokens)) != len(self.special_tokens) or "" in self.special_tokens:
            raise ValueError(f"special tokens must be distinct, not empty: {self.special_tokens}")
        vocab += [token.encode() for token in self.special_tokens]
        object.__setattr__(self, "vocab", tuple(vocab))
        object.__setattr__(self, "_rank", {pair: i for i, pair in enumerate(self.merges)})
        object.__setattr__(self, "_cache", {})

    def __len__(self) -> int:
        return len(self.vocab)

    def special_id(self, token: str) -> int:
        """Return the id of a special token.

        Raises
        ------
        ValueError
            If the tokenizer has no such special token.
        """
        if token not in self.special_tokens:
            raise ValueError(f"{token!r} is not one of the special tokens {self.special_tokens}")
        return NUM_BYTES + len(self.merges) + self.special_tokens.index(token)

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        """Turn text into ids.

        Parameters
        ----------
        text : str
            Any text that UTF-8 can write (no lone surrogates).
        allow_special : bool, default False
            Read the special tokens in `text` as such. By default they are ordinary text, so that
            a reader's input cannot smuggle one in.

        Returns
        -------
        list of int
            Ids below ``len(self)``; an empty text gives an empty list.
        """
        ids: list[int] = []
        for piece, special in split_special(text, self.special_tokens if allow_special else ()):
            ids += [self.special_id(piece)] if special else self._encode_plain(piece)
        return ids

    def _encode_plain(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in pieces(text):
            if piece not in self._cache:
                self._cache[piece] = merge_all(list(piece.encode()), self._rank)
            ids += self._cache[piece]
        return ids

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Turn ids into the bytes that they stand for.

        Raises
        ------
        ValueError
            If an id is not in the vocabulary.
        """
        ids = [int(token) for token in ids]
        wrong = [token for token in ids if not 0 <= token < len(self)]
        if wrong:
            raise ValueError(f"id {wrong[0]} is outside the vocabulary of {len(self)} tokens")
        return b"".join(self.vocab[token] for token in ids)

    def decode(self, ids: Iterable[int], errors: str = "strict") -> str:
        """Turn ids into text.

        Parameters
        ----------
        ids : iterable of int
            Ids below ``len(self)``.
        errors : str, default "strict"
            What to do where the bytes are not UTF-8, as in `bytes.decode`: a cut inside a
            character raises UnicodeDecodeError, "replace" writes U+FFFD for it.
        """
        return self.decode_bytes(ids).decode(errors=errors)

    def show(self, ids: Iterable[int]) -> list[str]:
        """Write each token by itself, bytes that are no whole character as hexadecimal escapes."""
        return [self.decode_bytes([token]).decode(errors="backslashreplace") for token in ids]


def train_bpe(text: str, vocab_size: int, special_tokens: Sequence[str] = ()) -> Tokenizer:
    """Learn the merges of a byte-level byte-pair encoder.

    Parameters
    ----------
    text : str
        The text to learn from.
    vocab_size : int
        Size of the vocabulary to reach: 256 bytes, the merges and the special tokens. Training
        ends earlier when no pair occurs twice.
    special_tokens : sequence of str, optional
        Texts that get an id of their own.

    Returns
    -------
    Tokenizer
        It depends on `text` and the sizes only.

    Raises
    ------
    ValueError
        If `vocab_size` leaves no room for the bytes and the special tokens.
    """
    num_merges = vocab_size - NUM_BYTES - len(special_tokens)
    if num_merges < 0:
        raise ValueError(
            f"vocab_size {vocab_size} is too small: {NUM_BYTES} bytes and "
            f"{len(special_tokens)} special tokens need {vocab_size - num_merges}"
        )
    return Tokenizer(tuple(learn_merges(text, num_merges)), tuple(special_tokens))


def pad(sequences: Sequence[Sequence[int]], pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Stack sequences of different lengths into one rectangle.

    Parameters
    ----------
    sequences : sequence of sequences of int
        At least one; each may be empty.
    pad_id : int
        What fills the rows up on the right.

    Returns
    -------
    ids : ndarray of int64, shape (B, L)
        L is the longest length.
    attend : ndarray of bool, shape (B, L)
        True where `ids` holds a token of the sequence, False where it is padding. True = attend,
        as for every mask of this package.

    Raises
    ------
    ValueError
        If there is no sequence.

    Examples
    --------
    >>> ids, attend = pad([[5, 6, 7], [8]], pad_id=0)
    >>> ids.tolist(), attend.tolist()
    ([[5, 6, 7], [8, 0, 0]], [[True, True, True], [True, False, False]])
    """
    if len(sequences) == 0:
        raise ValueError("sequences must hold at least one sequence, got none")
    lengths = np.array([len(sequence) for sequence in sequences])
    attend = np.arange(lengths.max()) < lengths[:, None]  # (B, L)
    ids = np.full(attend.shape, pad_id, dtype=np.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
    return ids, attend
