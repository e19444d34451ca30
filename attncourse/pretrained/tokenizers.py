"""Find the tokenizer that belongs to some weights, in whichever of four files it is written.

The one idea: weights without their tokenizer are useless, so its files are read as strictly as the
weights. A rule that our tokenizers do not have is an error, never a near miss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attncourse.pretrained import tokenizer_json
from attncourse.pretrained.byte_pairs import BytePairs
from attncourse.pretrained.files import damaged, read_json
from attncourse.pretrained.tokenizer_json import known, pairs
from attncourse.text.wordpiece import WordPiece

GGUF_CUTS = {"gpt-2": False, "gpt2": False, "smollm": True}  # name: is every digit alone?
BERT_FAMILIES, GPT_FAMILIES = ("bert", "distilbert"), ("gpt2", "llama")


class BertTokenizer(WordPiece):
    """A `WordPiece` whose `encode` puts the text between ``[CLS]`` and ``[SEP]`` by default."""

    def encode(
        self, text: str, *, add_special: bool = True, allow_special: bool = False
    ) -> list[int]:
        """Turn text into ids, as in `WordPiece.encode`."""
        return super().encode(text, add_special=add_special, allow_special=allow_special)

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Turn ids into text, as in `WordPiece.decode`."""
        return super().decode(ids, skip_special=skip_special)


def from_folder(family: str, folder: Path) -> BertTokenizer | BytePairs | None:
    """Read the tokenizer of a folder.

    Parameters
    ----------
    family : str
        The kind of model: "bert", "distilbert", "gpt2", "llama"; others have no tokenizer.
    folder : Path
        Where ``tokenizer.json``, ``vocab.txt``, or ``vocab.json`` and ``merges.txt`` lie.

    Returns
    -------
    BertTokenizer, BytePairs, or None
        None where the folder holds no such file.

    Raises
    ------
    NotImplementedError
        For a rule that our tokenizers do not have; it is named.
    ValueError
        When a file is damaged.
    """
    described = folder / "tokenizer.json"
    if family in BERT_FAMILIES:
        if (folder / "vocab.txt").exists():
            return BertTokenizer.from_file(folder / "vocab.txt", lower=_lower(folder))
        if not described.exists():
            return None
        vocab, lower = _described(described, tokenizer_json.word_pieces)
        return BertTokenizer(vocab, lower=lower)
    if family in GPT_FAMILIES and described.exists():
        return _described(described, tokenizer_json.byte_pairs)
    if family == "gpt2" and (folder / "vocab.json").exists():
        lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
        merges = [line for line in lines if line and not line.startswith("#version")]
        special = ("<|endoftext|>",)
        vocab, settings = read_json(folder / "vocab.json"), _settings(folder)
        for name in ("add_bos_token", "add_eos_token", "add_prefix_space"):
            known(name, settings.get(name) or False, False)
        return BytePairs(vocab, pairs(merges), [token for token in special if token in vocab])
    return None


def from_gguf(vocabulary: Mapping[str, Any]) -> BytePairs:
    """Build the tokenizer that a GGUF file describes.

    Raises
    ------
    NotImplementedError
        When it is no byte-level one, or cuts text in a way that is not known here.
    """
    kind, cutting = (vocabulary.get(f"tokenizer.ggml.{name}") for name in ("model", "pre"))
    if kind != "gpt2" or cutting not in GGUF_CUTS:
        raise NotImplementedError(
            f"the GGUF file has a tokenizer {kind!r} that cuts like {cutting!r}; known is 'gpt2' "
            f"that cuts like one of {sorted(GGUF_CUTS)}"
        )
    for name in ("add_bos_token", "add_eos_token", "add_space_prefix"):
        known(name, vocabulary.get(f"tokenizer.ggml.{name}") or False, False)
    tokens = vocabulary["tokenizer.ggml.tokens"]
    kinds = vocabulary.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    known("tokens that users added", kinds.count(4), 0)
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == 3]  # control
    return BytePairs(
        {token: number for number, token in enumerate(tokens)},
        pairs(vocabulary["tokenizer.ggml.merges"]),
        special,
        digits_alone=GGUF_CUTS[cutting],
    )


def _lower(folder: Path) -> bool:
    """Tell whether the tokenizer writes everything in lower case; BERT's own default is yes."""
    settings = _settings(folder)
    lower = settings.get("do_lower_case", True)
    known("strip_accents", settings.get("strip_accents") in (None, lower), True)
    known("tokenize_chinese_chars", settings.get("tokenize_chinese_chars", True), True)
    return lower


def _settings(folder: Path) -> dict[str, Any]:
    """Read what stands beside the vocabulary, if anything does."""
    path = folder / "tokenizer_config.json"
    return read_json(path) if path.exists() else {}


def _described(path: Path, read: Callable[[Mapping[str, Any]], Any]) -> Any:
    """Read a ``tokenizer.json``, and say which one it was when it is not built like one."""
    try:
        return read(read_json(path))
    except (KeyError, TypeError, AttributeError, IndexError, StopIteration) as problem:
        raise ValueError(damaged(path, problem)) from problem
