"""Find the tokenizer that belongs to some weights, in whichever of four files it is written.

The one idea: weights without their tokenizer are useless, and a near miss gives other ids without
a word. So what a file asks for is run by the library that these files were made with, `tokenizers`;
what stands beside it is honoured, or refused by name. How such tokenizers work is in
`attncourse.text`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attncourse.pretrained import tokenizer_files
from attncourse.pretrained.tokenizer_settings import Settings
from attncourse.text.special_tokens import check_text

SOURCES: dict[str, tuple[tuple[str, ...], Callable[[Path], Any]]] = {  # the first that is there
    "tokenizer.json": (("bert", "distilbert", "gpt2", "llama"), tokenizer_files.described),
    "vocab.txt": (("bert", "distilbert"), tokenizer_files.word_pieces),
    "vocab.json": (("gpt2",), tokenizer_files.gpt2),
}
CLEANER = {  # what `clean_up_tokenization_spaces` asks for, in this order
    **{f" {sign}": sign for sign in ".?!,"},
    " ' ": "'",
    **{f" {end}": end for end in ("n't", "'m", "'s", "'ve", "'re")},
}


class TextTokenizer:
    """A tokenizer of the library `tokenizers`, asked as the course's own are asked.

    Parameters
    ----------
    library : tokenizers.Tokenizer
        What does the work. It cuts no text to a length and fills none up from now on.
    clean_up : bool, default False
        Take spaces before punctuation away after decoding.
    """

    def __init__(self, library: Any, *, clean_up: bool = False) -> None:
        library.no_truncation()
        library.no_padding()
        self.library, self.clean_up = library, clean_up
        self.vocab: dict[str, int] = library.get_vocab(with_added_tokens=True)
        self.special_tokens = tuple(
            token.content for token in library.get_added_tokens_decoder().values() if token.special
        )
        self.frames = library.num_special_tokens_to_add(False) > 0

    def __len__(self) -> int:
        """Return the number of ids, the highest plus one."""
        return max(self.vocab.values(), default=-1) + 1

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

    def encode(
        self, text: str, *, add_special: bool = True, allow_special: bool = False
    ) -> list[int]:
        """Turn text into ids.

        Parameters
        ----------
        text : str
            Any text that UTF-8 can write.
        add_special : bool, default True
            Put around it what the file asks for: ``[CLS]`` and ``[SEP]`` for BERT, nothing for
            GPT-2.
        allow_special : bool, default False
            Read the special tokens in `text` as such. By default they are ordinary text.

        Returns
        -------
        list of int
            Ids below ``len(self)``.

        Raises
        ------
        TypeError
            When `text` is no str.
        ValueError
            When it holds a lone surrogate.
        """
        check_text(text)
        self.library.encode_special_tokens = not allow_special
        return self.library.encode(text, add_special_tokens=add_special).ids

    def decode(self, ids: Iterable[int], *, skip_special: bool | None = None) -> str:
        """Turn ids into text.

        Parameters
        ----------
        ids : iterable of int
            Ids of the vocabulary.
        skip_special : bool, optional
            Leave the special tokens out; by default where `encode` puts some around a text.

        Returns
        -------
        str
            Bytes that are no whole character become U+FFFD.

        Raises
        ------
        ValueError
            If an id is not in the vocabulary.
        """
        skip = self.frames if skip_special is None else skip_special
        text = self.library.decode(self._known(ids), skip_special_tokens=skip)
        for found, wanted in CLEANER.items() if self.clean_up else ():
            text = text.replace(found, wanted)
        return text

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Write each id as the vocabulary spells it."""
        return [self.library.id_to_token(number) for number in self._known(ids)]

    def show(self, ids: Iterable[int]) -> list[str]:
        """Write each id as the text that it stands for by itself."""
        return [self.library.decode([n], skip_special_tokens=False) for n in self._known(ids)]

    def _known(self, ids: Iterable[int]) -> list[int]:
        """Check that ids are in the vocabulary."""
        ids = [int(number) for number in ids]
        for number in ids:
            if not 0 <= number < len(self) or self.library.id_to_token(number) is None:
                raise ValueError(f"id {number} is outside the vocabulary of {len(self)} tokens")
        return ids


def from_folder(family: str, folder: Path) -> TextTokenizer | None:
    """Read the tokenizer of a folder.

    Parameters
    ----------
    family : str
        The kind of model: "bert", "distilbert", "gpt2", "llama"; others have no tokenizer.
    folder : Path
        Where ``tokenizer.json``, ``vocab.txt``, or ``vocab.json`` and ``merges.txt`` lie.

    Returns
    -------
    TextTokenizer or None
        None where the folder holds no such file.

    Raises
    ------
    NotImplementedError
        For a setting that nothing is known about; it is named.
    ValueError
        When a file is damaged, or files contradict each other.
    """
    for name, (families, build) in SOURCES.items():
        path = folder / name
        if family in families and path.exists():
            return _ready(path, build, Settings.beside(folder, family))
    return None


def from_gguf(vocabulary: Mapping[str, Any]) -> TextTokenizer:
    """Build the tokenizer that a GGUF file describes.

    Parameters
    ----------
    vocabulary : mapping
        The file's settings, under its own names.

    Raises
    ------
    NotImplementedError
        When it is no byte-level one, cuts text in a way that is not known here, or has a setting
        that nothing is known about; it is named.
    ValueError
        When its tokens or merges are missing, or do not fit.
    """
    return _ready("the GGUF file", lambda _: tokenizer_files.gguf(vocabulary), Settings({}))


def _ready(where: Path | str, build: Callable[[Any], Any], settings: Settings) -> TextTokenizer:
    """Build a tokenizer, apply its settings, and say which file it was when that fails."""
    import tokenizers

    try:
        library = build(where)
        settings.apply(library)
    except (NotImplementedError, FileNotFoundError):
        raise
    except BaseException as problem:  # the library's own panic is no Exception
        if not isinstance(problem, Exception) and type(problem).__name__ != "PanicException":
            raise
        raise ValueError(
            f"{where} is damaged, or no tokenizer that tokenizers {tokenizers.__version__} can "
            f"read: {problem}"
        ) from problem
    clean_up = settings.flag("clean_up_tokenization_spaces")
    # transformers leaves byte pairs alone: their spaces belong to the text
    bytes_alone = type(library.model).__name__ == "BPE"
    return TextTokenizer(library, clean_up=bool(clean_up) and not bytes_alone)
