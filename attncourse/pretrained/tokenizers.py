"""Find the tokenizer that belongs to some weights, in whichever of four files it is written.

The one idea: weights without their tokenizer are useless, so its files are read as strictly as the
weights. A rule that our tokenizers do not have is an error, never a near miss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attncourse.pretrained.byte_pairs import BytePairs
from attncourse.pretrained.files import read_json
from attncourse.wordpiece import WordPiece

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
    """
    described = folder / "tokenizer.json"
    if family in BERT_FAMILIES:
        if (folder / "vocab.txt").exists():
            return BertTokenizer.from_file(folder / "vocab.txt", lower=_lower(folder))
        return _described_word_pieces(read_json(described)) if described.exists() else None
    if family in GPT_FAMILIES and described.exists():
        return _described_byte_pairs(read_json(described))
    if family == "gpt2" and (folder / "vocab.json").exists():
        lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
        merges = [line for line in lines if line and not line.startswith("#version")]
        special = ("<|endoftext|>",)
        vocab = read_json(folder / "vocab.json")
        return BytePairs(vocab, _pairs(merges), [token for token in special if token in vocab])
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
    tokens = vocabulary["tokenizer.ggml.tokens"]
    kinds = vocabulary.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == 3]  # control
    return BytePairs(
        {token: number for number, token in enumerate(tokens)},
        _pairs(vocabulary["tokenizer.ggml.merges"]),
        special,
        digits_alone=GGUF_CUTS[cutting],
    )


def _described_byte_pairs(described: Mapping[str, Any]) -> BytePairs:
    """Build what a ``tokenizer.json`` of the kind BPE describes."""
    model = described["model"]
    _known("model", model["type"], "BPE")
    _known("normalizer", described.get("normalizer"), None)
    _known("byte_fallback", model.get("byte_fallback") or False, False)
    _known("ignore_merges", model.get("ignore_merges") or False, False)
    _known(
        "tokens around a text",
        (described.get("post_processor") or {}).get("special_tokens") or {},
        {},
    )
    steps = described["pre_tokenizer"]
    steps = steps["pretokenizers"] if steps["type"] == "Sequence" else [steps]
    *before, last = steps
    _known("pre_tokenizer", last["type"], "ByteLevel")
    _known("add_prefix_space", last.get("add_prefix_space", True), False)
    _known("use_regex", last.get("use_regex", True), True)
    for step in before:
        _known("pre_tokenizer", step, {"type": "Digits", "individual_digits": True})
    added = {token["content"]: token["id"] for token in described.get("added_tokens", ())}
    merges = model["merges"]
    pairs = _pairs(merges) if merges and isinstance(merges[0], str) else [tuple(m) for m in merges]
    vocab = {**model["vocab"], **added}
    return BytePairs(vocab, pairs, list(added), digits_alone=bool(before))


def _described_word_pieces(described: Mapping[str, Any]) -> BertTokenizer:
    """Build what a ``tokenizer.json`` of the kind WordPiece describes."""
    model, normalizer = described["model"], described.get("normalizer") or {}
    _known("model", model["type"], "WordPiece")
    _known("normalizer", normalizer.get("type"), "BertNormalizer")
    _known("max_input_chars_per_word", model.get("max_input_chars_per_word", 100), 100)
    lower = bool(normalizer.get("lowercase", True))
    _known("strip_accents", normalizer.get("strip_accents") in (None, lower), True)
    vocab = sorted(model["vocab"], key=model["vocab"].__getitem__)
    _known("ids", sorted(model["vocab"].values()) == list(range(len(vocab))), True)
    return BertTokenizer(tuple(vocab), lower=lower)


def _known(setting: str, came: Any, wanted: Any) -> None:
    if came != wanted:
        raise NotImplementedError(
            f"the tokenizer's {setting} is {came!r}; only {wanted!r} is known here"
        )


def _pairs(merges: Iterable[str]) -> list[tuple[str, str]]:
    """Split merges that are written as two tokens with a space between them."""
    pairs = [tuple(merge.split(" ")) for merge in merges]
    wrong = [pair for pair in pairs if len(pair) != 2]
    if wrong:
        raise ValueError(f"a merge must be two tokens, got {wrong[0]}")
    return pairs  # type: ignore[return-value]


def _lower(folder: Path) -> bool:
    """Tell whether the tokenizer writes everything in lower case; BERT's own default is yes."""
    path = folder / "tokenizer_config.json"
    settings = read_json(path) if path.exists() else {}
    lower = settings.get("do_lower_case", True)
    _known("strip_accents", settings.get("strip_accents") in (None, lower), True)
    _known("tokenize_chinese_chars", settings.get("tokenize_chinese_chars", True), True)
    return lower
