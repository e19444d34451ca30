"""Apply what stands beside a ``tokenizer.json``: each setting is honoured, harmless or refused.

The one idea: a setting that nobody reads gives other ids without a word. So the list of settings
is closed: those in `HARMLESS` cannot change what `encode` and `decode` return, those that the
functions below read are honoured, and whatever else a file says is refused by name.

Notes
-----
A file means what `transformers` makes of it. Its classes for BERT and GPT-2 let these settings win
over ``tokenizer.json``. Which of the two wins in its other classes, and which one says what stands
around a text, has changed between versions: a contradiction is refused there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attncourse.pretrained.files import read_json

HARMLESS = {
    "nothing is cut to a length or filled up here": (
        *("model_max_length", "max_len", "max_length", "stride", "padding", "padding_side"),
        *("pad_to_multiple_of", "pad_token_type_id", "truncation", "truncation_side"),
        "truncation_strategy",
    ),
    "conversations are not written here": (
        *("chat_template", "chat_control_tokens", "response_template", "response_schema"),
        "use_default_system_prompt",
    ),
    "only ids come back, without masks or places": ("model_input_names", "trim_offsets"),
    "`encode` is told each time": ("split_special_tokens",),
    "where files lay, and which program wrote them": (
        *("name_or_path", "vocab_file", "merges_file", "tokenizer_file", "_commit_hash"),
        *("special_tokens_map_file", "files_loaded", "is_local", "local_files_only", "backend"),
        *("transformers_version", "processor_class", "use_fast", "from_slow", "legacy"),
        "init_inputs",
    ),
    "they tell Python's tokenizers of transformers what the others do anyhow": (
        *("do_basic_tokenize", "spaces_between_special_tokens"),
    ),
}
ONLY = {"errors": "replace", "never_split": [], "sp_model_kwargs": {}, "fix_mistral_regex": False}
ONLY |= {"clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": False}
CASES = {  # the setting: its name inside a BertNormalizer, and its value where nothing is said
    "do_lower_case": ("lowercase", True),
    "strip_accents": ("strip_accents", None),
    "tokenize_chinese_chars": ("handle_chinese_chars", True),
}
HONOURED = {*CASES, "add_prefix_space", "add_bos_token", "add_eos_token", "tokenizer_class"}
HONOURED |= {"added_tokens_decoder", "additional_special_tokens", "extra_special_tokens"}
HONOURED |= {"clean_up_tokenization_spaces"}

CLASS_OF = {"bert": "BertTokenizer", "distilbert": "BertTokenizer", "gpt2": "GPT2Tokenizer"}
BERT_CLASSES = ("BertTokenizer", "DistilBertTokenizer")
BERT_NAMES = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}
NAMES = {  # how a class calls its special tokens where nothing is said
    **dict.fromkeys(BERT_CLASSES, BERT_NAMES),
    "GPT2Tokenizer": dict.fromkeys(("unk_token", "bos_token", "eos_token"), "<|endoftext|>"),
    "LlamaTokenizer": {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
}


@dataclass(frozen=True)
class Settings:
    """What stands beside a ``tokenizer.json``.

    Attributes
    ----------
    said : mapping
        Every setting that is not None, under the file's own name.
    kind : str
        The class of `transformers` that the file names, or the usual one of its family.
    alone : bool
        Whether there is no ``tokenizer.json`` that they could contradict.
    """

    said: Mapping[str, Any]
    kind: str = ""
    alone: bool = False

    @classmethod
    def beside(cls, folder: Path, family: str) -> Settings:
        """Read ``tokenizer_config.json`` and the older files of a folder.

        Raises
        ------
        NotImplementedError
            For a setting that nothing is known about; it is named.
        ValueError
            When a file is damaged.
        """

        def read(name: str) -> dict[str, Any]:
            return read_json(folder / name) if (folder / name).exists() else {}

        said = read("tokenizer_config.json")
        if said.get("added_tokens_decoder") is None:  # else the older files count for nothing
            listed = {number: token for token, number in read("added_tokens.json").items()}
            said |= read("special_tokens_map.json") | {"added_tokens_decoder": listed}
        said = {name: value for name, value in said.items() if value is not None}
        _refuse_unknown(said)
        kind = said.get("tokenizer_class", CLASS_OF.get(family, ""))
        alone = not (folder / "tokenizer.json").exists()
        return cls(said, str(kind).removesuffix("Fast"), alone)

    def flag(self, name: str) -> bool | None:
        """Return a setting that is true, false or absent.

        Raises
        ------
        ValueError
            When it is something else.
        """
        value = self.said.get(name)
        if value is not None and not isinstance(value, bool):
            raise ValueError(f"the tokenizer's {name} must be true or false, got {value!r}")
        return value

    def apply(self, library: Any) -> None:
        """Change a tokenizer into what the settings ask for.

        Parameters
        ----------
        library : tokenizers.Tokenizer
            From ``tokenizer.json``, or from the files that stand for it.

        Raises
        ------
        NotImplementedError
            When the two contradict each other, and versions differ in which one counts.
        ValueError
            When a setting is of another kind, or a token is not in the vocabulary.
        """
        self._add_tokens(library)
        self._set_cases(library)
        self._set_spaces(library)
        self._set_frame(library)
        unknown = getattr(library.model, "unk_token", None)
        if "Word" in type(library.model).__name__ and library.token_to_id(unknown or "") is None:
            raise ValueError(f"the token {unknown!r} for unknown words is not in the vocabulary")

    def _name(self, name: str) -> Any:
        """Return the token of a name, which may be written as a table."""
        return self.said.get(name, NAMES.get(self.kind, {}).get(name))

    def _add_tokens(self, library: Any) -> None:
        """Add the listed tokens, and make special those that have a name."""
        listed = self.said.get("added_tokens_decoder", {})
        for number, token in sorted(listed.items(), key=lambda pair: int(pair[0])):
            library.add_tokens([_token(token, normalized=isinstance(token, str), special=False)])
            if library.token_to_id(_content(token)) != int(number):
                raise ValueError(f"{_content(token)!r} cannot have the id {number} that it claims")
        vocab = library.get_vocab()
        named = [value for name, value in self.said.items() if _names_a_token(name, value)]
        named += [
            text
            for name, text in NAMES.get(self.kind, {}).items()
            if name not in self.said and text in vocab
        ]
        for name in ("additional_special_tokens", "extra_special_tokens"):
            more = self.said.get(name, [])
            named += more.values() if isinstance(more, Mapping) else more
        has = {token.content: token for token in library.get_added_tokens_decoder().values()}
        library.add_special_tokens(
            [has.get(t) or _token(t) if isinstance(t, str) else _token(t) for t in named]
        )

    def _set_cases(self, library: Any) -> None:
        """Say what happens to capitals, accents and Chinese characters."""
        normalizer, bert = library.normalizer, self.kind in BERT_CLASSES
        if bert:
            known("normalizer", type(normalizer).__name__, "BertNormalizer")
        for name, (theirs, usual) in CASES.items():
            wanted, came = self.flag(name), getattr(normalizer, theirs, None)
            if bert:
                setattr(normalizer, theirs, usual if wanted is None else wanted)
            elif wanted is not None and bool(came) != wanted:
                raise NotImplementedError(_contradiction(name, wanted, came))

    def _set_spaces(self, library: Any) -> None:
        """Say whether a space is put before each text."""
        wanted, cutter = self.flag("add_prefix_space"), library.pre_tokenizer
        if self.kind == "GPT2Tokenizer" and type(cutter).__name__ == "ByteLevel":
            cutter.add_prefix_space = bool(wanted)
        came = any(map(_adds_space, [*_steps(cutter), *_steps(library.normalizer)]))
        if wanted is not None and wanted != came:
            raise NotImplementedError(_contradiction("add_prefix_space", wanted, came))

    def _set_frame(self, library: Any) -> None:
        """Say what stands before and after each text."""
        wanted = [self.flag(f"add_{end}_token") for end in ("bos", "eos")]
        tokens = [self._name(f"{end}_token") for end in ("bos", "eos")]
        if self.kind in BERT_CLASSES:
            known("add_bos_token or add_eos_token", any(wanted), False)
            library.model.unk_token = _content(self._name("unk_token"))
            frame(library, *(_content(self._name(f"{end}_token")) for end in ("cls", "sep")))
        elif self.alone and any(wanted):
            pairs = zip(tokens, wanted, strict=True)
            frame(library, *(_content(token) if end else None for token, end in pairs))
        elif not self.alone:
            around = library.encode("").tokens
            for name, wish, token, place in zip(
                ("add_bos_token", "add_eos_token"), wanted, tokens, (0, -1), strict=True
            ):
                came = bool(around) and around[place] == (token and _content(token))
                if wish is not None and wish != came:
                    raise NotImplementedError(_contradiction(name, wish, came))


def frame(library: Any, first: str | None, last: str | None) -> None:
    """Put a token before and after each text; None for none on that side.

    Raises
    ------
    ValueError
        When one of them is not in the vocabulary.
    """
    from tokenizers.processors import TemplateProcessing

    ids = {token: library.token_to_id(token) for token in (first, last) if token is not None}
    for token, number in ids.items():
        if number is None:
            raise ValueError(f"the token {token!r} around a text is not in the vocabulary")
    around = [part for part in (first, "$A", last) if part is not None]
    library.post_processor = TemplateProcessing(single=around, special_tokens=list(ids.items()))


def known(setting: str, came: Any, wanted: Any) -> None:
    """Refuse a setting whose value is another one than is known here."""
    if came != wanted:
        raise NotImplementedError(
            f"the tokenizer's {setting} is {came!r}; only {wanted!r} is known here"
        )


def _refuse_unknown(said: Mapping[str, Any]) -> None:
    """Refuse what is neither honoured nor harmless."""
    harmless = {name for names in HARMLESS.values() for name in names}
    for name, value in said.items():
        if name in ONLY:
            known(name, value, ONLY[name])
        elif name not in HONOURED | harmless and not _names_a_token(name, value):
            raise NotImplementedError(
                f"the tokenizer's {name} is {str(value)[:60]!r}, and nothing is known about it here"
            )


def _names_a_token(name: str, value: Any) -> bool:
    return name.endswith("_token") and isinstance(value, str | Mapping)


def _content(token: Any) -> str:
    """Return the text of a token that is written as a text or as a table."""
    text = token.get("content") if isinstance(token, Mapping) else token
    if not isinstance(text, str):
        raise ValueError(f"a special token must be a text, got {token!r}")
    return text


def _token(token: Any, **flags: bool) -> Any:
    """Write a token as the library takes it; a table may say how it is found in a text."""
    from tokenizers import AddedToken

    flags = {"normalized": False, "special": True, **flags}
    if isinstance(token, Mapping):
        names = ("lstrip", "rstrip", "single_word", "normalized", "special")
        flags |= {name: bool(token[name]) for name in names if name in token}
    return AddedToken(_content(token), **flags)


def _steps(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the steps of which a rule for cutting or normalising consists."""
    if part is not None and not isinstance(part, Mapping):
        part = json.loads(part.__getstate__())
    for step in (part or {}).get("pretokenizers", (part or {}).get("normalizers", ())):
        yield from _steps(step)
    if part:
        yield part


def _adds_space(step: Mapping[str, Any]) -> bool:
    """Tell whether a step puts a space before a text."""
    if step["type"] == "Metaspace":
        return step.get("prepend_scheme", "always") != "never"
    return step["type"] == "Prepend" or bool(step.get("add_prefix_space"))


def _contradiction(name: str, wanted: Any, came: Any) -> str:
    return (
        f"tokenizer_config.json says {name} = {wanted!r}, tokenizer.json says {came!r}, "
        "and versions of transformers differ in which one counts"
    )
