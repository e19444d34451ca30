"""Build a tokenizer from the files in which others publish theirs.

The one idea: BERT's list of words, GPT-2's list of merges and the tables of a GGUF file are older
spellings of what a ``tokenizer.json`` says. All four become one kind of object, that of the library
`tokenizers`. Left out: the settings beside them (`attncourse.pretrained.tokenizer_settings`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attncourse.pretrained.files import read_json, read_text
from attncourse.pretrained.tokenizer_settings import frame

GGUF_CUTS = {"gpt-2": False, "gpt2": False, "smollm": True}  # name: is every digit alone?
GGUF_CONTROL, GGUF_USER = 3, 4
GGUF_HARMLESS = (  # numbers of tokens, scores of another kind of tokenizer, conversations
    *("bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id", "unknown_token_id"),
    *("padding_token_id", "seperator_token_id", "cls_token_id", "mask_token_id", "scores"),
    *("fim_pre_token_id", "fim_suf_token_id", "fim_mid_token_id", "fim_pad_token_id"),
    *("fim_rep_token_id", "fim_sep_token_id", "token_type_count"),
)


def described(path: Path) -> Any:
    """Run a ``tokenizer.json``."""
    from tokenizers import Tokenizer

    text = read_text(path)
    said = json.loads(text)
    model = said["model"]
    if "merges" in model:
        pairs = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
        _check_merges(model["vocab"], pairs, model.get("continuing_subword_prefix") or "")
    library = Tokenizer.from_str(text)
    for token in said.get("added_tokens") or ():
        if library.token_to_id(token["content"]) != token["id"]:
            raise ValueError(f"{token['content']!r} cannot have the id {token['id']} it claims")
    return library


def word_pieces(path: Path) -> Any:
    """Read with BERT's rules."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    tokens = _lines(path)
    vocab = {token: number for number, token in enumerate(tokens)}
    if len(vocab) != len(tokens):
        raise ValueError(f"it has {len(tokens)} lines, but {len(vocab)} tokens")
    library = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer()
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    return library


def _byte_pairs(vocab: Mapping[str, int], merges: Iterable[str], digits_alone: bool) -> Any:
    """Read with GPT-2's rules, or with SmolLM2's."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    pairs = [merge.split(" ") for merge in merges]
    _check_merges(vocab, pairs)
    library = Tokenizer(models.BPE(dict(vocab), [(left, right) for left, right in pairs]))
    cutter: Any = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if digits_alone:
        digits = pre_tokenizers.Digits(individual_digits=True)
        cutter = pre_tokenizers.Sequence([digits, cutter])
    library.pre_tokenizer, library.decoder = cutter, decoders.ByteLevel()
    return library


def gpt2(path: Path) -> Any:
    """Read the two files in which GPT-2 was published."""
    lines = _lines(path.parent / "merges.txt")
    merges = [line for line in lines if line and not line.startswith("#version")]
    return _byte_pairs(read_json(path), merges, digits_alone=False)


def gguf(vocabulary: Mapping[str, Any]) -> Any:
    """Read the settings of a GGUF file."""
    from tokenizers import AddedToken

    said = {name.removeprefix("tokenizer.ggml."): value for name, value in vocabulary.items()}
    kind, cutting = said.pop("model", None), said.pop("pre", None)
    if kind != "gpt2" or cutting not in GGUF_CUTS:
        raise NotImplementedError(
            f"the GGUF file has a tokenizer {kind!r} that cuts like {cutting!r}; known is 'gpt2' "
            f"that cuts like one of {sorted(GGUF_CUTS)}"
        )
    tokens, merges = (_texts(said.pop(name, None), name) for name in ("tokens", "merges"))
    library = _byte_pairs({token: i for i, token in enumerate(tokens)}, merges, GGUF_CUTS[cutting])
    kinds = said.pop("token_type", None) or [1] * len(tokens)
    for token, kind in zip(tokens, kinds, strict=True):
        if kind in (GGUF_CONTROL, GGUF_USER):
            control = kind == GGUF_CONTROL
            library.add_tokens([AddedToken(token, normalized=False, special=control)])
    ends = [said.pop(f"add_{end}_token", None) for end in ("bos", "eos")]
    if any(ends):
        numbers = [said.get(f"{end}_token_id") for end in ("bos", "eos")]
        names = [library.id_to_token(n) if isinstance(n, int) and n >= 0 else None for n in numbers]
        frame(library, *(name or "" if e else None for name, e in zip(names, ends, strict=True)))
    for name, value in said.items():
        if value and name not in GGUF_HARMLESS and "chat_template" not in name:
            raise NotImplementedError(
                f"the tokenizer's {name} is {str(value)[:60]!r}, and nothing is known about it here"
            )
    return library


def _check_merges(
    vocab: Mapping[str, int], pairs: Iterable[Sequence[str]], prefix: str = ""
) -> None:
    """Refuse merges that do not fit: with them the library would end the program."""
    for number, pair in enumerate(pairs):
        if len(pair) != 2:
            raise ValueError(f"a merge must be two tokens, got {pair}")
        if not {*pair, pair[0] + pair[1].removeprefix(prefix)} <= vocab.keys():
            raise ValueError(
                f"merge {number} of {pair[0]!r} and {pair[1]!r} does not fit the vocabulary"
            )


def _texts(came: Any, name: str) -> list[str]:
    """Check a list of a GGUF file."""
    if not isinstance(came, list) or not all(isinstance(text, str) for text in came):
        got = "none" if came is None else str(came)[:60]
        raise ValueError(f"it must list its tokenizer's {name} as texts, got {got}")
    return came


def _lines(path: Path) -> list[str]:
    """Read a file of one token a line; other signs that end lines may be tokens."""
    return [line.removesuffix("\r") for line in read_text(path).removesuffix("\n").split("\n")]
