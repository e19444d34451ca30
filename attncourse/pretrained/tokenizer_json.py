"""Read a ``tokenizer.json``: a program for cutting text, of which two kinds are known here.

The one idea: such a file can ask for almost anything. What ours do is written down as a list of
the settings that they honour; every other wish is refused by name, since a near miss would give
other ids without a word. Left out: how texts are cut to a length or filled up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attncourse.pretrained.byte_pairs import CHARACTERS, BytePairs

AROUND = ["[CLS]", "A", "[SEP]"]  # what BERT puts around a text A


def byte_pairs(described: Mapping[str, Any]) -> BytePairs:
    """Build what a file of the kind BPE describes.

    Raises
    ------
    NotImplementedError
        For a rule that `BytePairs` does not have; it is named.
    """
    model = described["model"]
    known("model", model["type"], "BPE")
    known("normalizer", described.get("normalizer"), None)
    for name in ("byte_fallback", "ignore_merges", "dropout", "continuing_subword_prefix"):
        known(name, model.get(name) or False, False)
    known("end_of_word_suffix", model.get("end_of_word_suffix") or False, False)
    known("tokens around a text", _around(described.get("post_processor")), ["A"])
    steps = described.get("pre_tokenizer") or {"type": None}
    steps = steps["pretokenizers"] if steps["type"] == "Sequence" else [steps]
    *before, last = steps or [{"type": None}]
    known("pre_tokenizer", last["type"], "ByteLevel")
    known("add_prefix_space", last.get("add_prefix_space", True), False)
    known("use_regex", last.get("use_regex", True), True)
    for step in before:
        known("pre_tokenizer", step, {"type": "Digits", "individual_digits": True})
    vocab = {**model["vocab"], **_added(described)}
    if not set(CHARACTERS) <= vocab.keys():  # else there is nothing that it could stand for
        known("unk_token", model.get("unk_token"), None)
    merges = model["merges"]
    return BytePairs(
        vocab,
        pairs(merges) if merges and isinstance(merges[0], str) else [tuple(m) for m in merges],
        list(_added(described)),
        digits_alone=bool(before),
    )


def word_pieces(described: Mapping[str, Any]) -> tuple[tuple[str, ...], bool]:
    """Return vocabulary and lower case of a file of the kind WordPiece.

    Raises
    ------
    NotImplementedError
        For a rule that `attncourse.text.wordpiece.WordPiece` does not have; it is named.
    """
    model, normalizer = described["model"], described.get("normalizer") or {}
    known("model", model["type"], "WordPiece")
    known("unk_token", model.get("unk_token", "[UNK]"), "[UNK]")
    known("continuing_subword_prefix", model.get("continuing_subword_prefix", "##"), "##")
    known("max_input_chars_per_word", model.get("max_input_chars_per_word", 100), 100)
    known("normalizer", normalizer.get("type"), "BertNormalizer")
    for name in ("clean_text", "handle_chinese_chars"):
        known(name, normalizer.get(name, True), True)
    lower = bool(normalizer.get("lowercase", True))
    known("strip_accents", normalizer.get("strip_accents") in (None, lower), True)
    known("pre_tokenizer", (described.get("pre_tokenizer") or {}).get("type"), "BertPreTokenizer")
    known("tokens around a text", _around(described.get("post_processor")), AROUND)
    vocab = sorted(model["vocab"], key=model["vocab"].__getitem__)
    known("ids", sorted(model["vocab"].values()) == list(range(len(vocab))), True)
    known("tokens outside the vocabulary", sorted(_added(described).keys() - set(vocab)), [])
    return tuple(vocab), lower


def pairs(merges: Iterable[str]) -> list[tuple[str, str]]:
    """Split merges that are written as two tokens with a space between them."""
    found = [tuple(merge.split(" ")) for merge in merges]
    wrong = [pair for pair in found if len(pair) != 2]
    if wrong:
        raise ValueError(f"a merge must be two tokens, got {wrong[0]}")
    return found  # type: ignore[return-value]


def known(setting: str, came: Any, wanted: Any) -> None:
    """Refuse a setting whose value is another one than ours compute."""
    if came != wanted:
        raise NotImplementedError(
            f"the tokenizer's {setting} is {came!r}; only {wanted!r} is known here"
        )


def _around(processor: Mapping[str, Any] | None) -> list[str]:
    """List what comes before and after a text "A"."""
    kind = None if processor is None else processor["type"]
    if processor is None or kind == "ByteLevel":
        return ["A"]
    if kind == "Sequence":
        every = [_around(step) for step in processor["processors"]]
        adding = [around for around in every if around != ["A"]]
        return [part for around in adding for part in around] or ["A"]
    if kind == "TemplateProcessing":
        return [next(iter(part.values()))["id"] for part in processor["single"]]
    if kind in ("BertProcessing", "RobertaProcessing"):
        return [processor["cls"][0], "A", processor["sep"][0]]
    return [str(kind)]


def _added(described: Mapping[str, Any]) -> dict[str, int]:
    """Return the added tokens, all of which must stand for themselves and be special."""
    added = described.get("added_tokens") or ()
    for token in added:
        for name, wanted in {"lstrip": False, "rstrip": False, "single_word": False}.items():
            known(f"{name} of {token['content']!r}", token.get(name, wanted), wanted)
        known(f"special of {token['content']!r}", token.get("special", True), True)
    return {token["content"]: token["id"] for token in added}
