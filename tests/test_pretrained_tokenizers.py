"""Tokenizers of trained models: the ids of transformers, whatever stands beside the files."""

import json
import os
import random
import unicodedata
from functools import cache

import pytest

torch = pytest.importorskip("torch")
library = pytest.importorskip("tokenizers")

from attncourse.pretrained import available, tokenizers  # noqa: E402
from attncourse.pretrained.loading import locate  # noqa: E402
from attncourse.pretrained.quantised import read_gguf  # noqa: E402
from attncourse.pretrained.tokenizer_settings import HARMLESS, ONLY  # noqa: E402

HARD = {
    "empty": "",
    "spaces": "   ",
    "sentence": "The best thing about AI is its",
    "contractions": "It's we'll I'D they've 'tis don’t",
    "accents": "naïve café Zürich coöperate Ångström",
    "combining": "e\u0301 n\u0303 a\u030a\u0323 한글 \u1112\u1161\u11ab",
    "chinese": "自注意力让每个位置都能看到其他位置。《红楼梦》",
    "japanese-korean": "カタカナとひらがな、漢字 주의 메커니즘",
    "greek-turkish": "ΟΔΥΣΣΕΥΣ İstanbul ẞ ß ﬁ",
    "arabic-hebrew-hindi": "انتباه קשב ध्यान กขค",
    "spaces before signs": "do not , he said ; it ' s fine . ?",
    "emoji": "👍🏽 👩‍👩‍👧‍👦 🇩🇪 ☺️ 1️⃣",
    "control": "a\x00b\x01\x04\x06c\x1b[31m\x7f\x85d\x1c\x1d\x1e\x1fe\x0b\x0cf",
    "control-after-space": "a \n\x1c\x1d b\t\x1f\x1e  c \x1c",
    "zero-width": "a\u200bb\u200dc\ufeffd\u00ade\u2060f\ufffdg",
    "white-space": "a\u00a0b\u2003c\u3000d\u2028e\u2029f\t\tg\r\n\n  h  ",
    "digits": "1  12 3.14159 1,000,000 ٣٤ ½ Ⅻ ² 2024-01-02",
    "signs": "$100 < 50% & a+b=c ~`^|\\ «x» …—– ¿que? @#_*_",
    "code": "def f(x):\n    return x  # ok\n\n\n\tif x != y: z[0] += 1e-3\n",
    "markup": "<|endoftext|> [MASK] <s> </s> [CLS]",
    "long-word": "a" * 150 + " " + "ab" * 60,
    "private-and-rare": "\ue000 \U000f0000 \U0010ffff 𝔘𝔫𝔦 ﷽ \u0378",
    "trailing": "ends with spaces   ",
}


def needs(name):
    """Skip without a package of weights; in continuous integration, fail."""
    if not available(name):
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed: .ci/run installs it")
        pytest.skip(f"{name} is not installed")


def random_texts(number):
    """Make texts of characters that have been in Unicode since 3.2 and kept their category.

    Libraries differ in how new a Unicode they know.
    """
    pick = random.Random(0)
    common = [chr(code) for code in (*range(0x300), *range(0x2000, 0x2070), 0x4E2D, 0x1F600)]
    for _ in range(number):
        rare = (chr(pick.randrange(0x30000)) for _ in range(6))
        drawn = [*pick.choices(common, k=12), *pick.choices(" '1aZ\n", k=8), *rare]
        pick.shuffle(drawn)
        yield "".join(filter(settled, drawn))


def settled(character):
    old = unicodedata.ucd_3_2_0.category(character)
    return old == unicodedata.category(character) and old not in ("Cs", "Cn")


@cache
def learnt():
    """Learn a vocabulary with the library and give its description, as GPT-2's file has it."""
    built = library.Tokenizer(library.models.BPE())
    built.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<|endoftext|>", "<s>", "</s>", "[CLS]"],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    built.train_from_iterator(list(HARD.values()) * 2, trainer)
    return built.to_str()


@cache
def word_pieces():
    """Make a vocabulary of words and parts, as BERT's file has it."""
    built = library.implementations.BertWordPieceTokenizer(lowercase=False, strip_accents=False)
    text = [*HARD.values(), *map(str.lower, HARD.values())]
    built.train_from_iterator(text, vocab_size=900, min_frequency=1, show_progress=False)
    return built.to_str()


def changed(described, place, value):
    """Change one part of a description."""
    *keys, last = place.split(".")
    part = described
    for key in keys:
        part = part[int(key) if key.isdigit() else key]
    part[last] = value
    return described


def written(folder, family, described=None, **settings):
    """Write the files of a tokenizer, and return ours."""
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    if described is not None:
        (folder / "tokenizer.json").write_text(json.dumps(described), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return tokenizers.from_folder(family, folder)


def reference(folder):
    """Return what transformers makes of a folder."""
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    return transformers.AutoTokenizer.from_pretrained(folder)


def assert_alike(ours, theirs):
    """Compare ids and texts on everything hard."""
    for text in HARD.values():
        assert ours.encode(text, allow_special=True) == theirs(text)["input_ids"], ascii(text)
        plain = theirs(text, split_special_tokens=True)["input_ids"]
        if text != HARD["markup"]:  # there transformers also takes apart what stands around
            assert ours.encode(text) == plain, ascii(text)
        for skip in (True, False):
            expected = theirs.decode(plain, skip_special_tokens=skip)
            assert ours.decode(plain, skip_special=skip) == expected
    assert set(ours.special_tokens) >= set(theirs.all_special_tokens)
    assert len(ours) == len(theirs)


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
DIGITS = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}]}
DIGITS["pretokenizers"].append(BYTES)
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+"
SPLIT = {"type": "Split", "pattern": {"Regex": LLAMA3}, "behavior": "Isolated", "invert": False}
TEMPLATE = {"type": "TemplateProcessing", "pair": []}
TEMPLATE["single"] = [{"SpecialToken": {"id": "<s>", "type_id": 0}}]
TEMPLATE["single"].append({"Sequence": {"id": "A", "type_id": 0}})
TEMPLATE["special_tokens"] = {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}
TOKEN = {"lstrip": True, "rstrip": True, "single_word": False, "normalized": False}
ADDED = {**TOKEN, "id": 500, "content": "Ång", "special": False}
PROGRAMS = {
    "as it is": {},
    "digits alone": {"pre_tokenizer": DIGITS},
    "a space in front": {"pre_tokenizer": {**BYTES, "add_prefix_space": True}},
    "another way of cutting": {
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [SPLIT, {**BYTES, "use_regex": False}],
        }
    },
    "normalised": {"normalizer": {"type": "NFKC"}},
    "a token in front": {"post_processor": TEMPLATE},
    "no merges for whole words": {"model.ignore_merges": True},
    "an added token": {"added_tokens.4": ADDED},
    "truncated and filled up": {
        "truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0}
        | {"direction": "Right"},
        "padding": {"strategy": {"Fixed": 9}, "direction": "Left", "pad_to_multiple_of": None}
        | {"pad_id": 0, "pad_type_id": 0, "pad_token": "<s>"},
    },
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_described_tokenizer_gives_the_reference_ids(tmp_path, program):
    described = json.loads(learnt())
    for place, value in PROGRAMS[program].items():
        if place == "added_tokens.4":
            described["added_tokens"].append(value)
        else:
            changed(described, place, value)
    ours = written(tmp_path, "llama", described, tokenizer_class="PreTrainedTokenizerFast")
    assert_alike(ours, reference(tmp_path))
    for text in random_texts(100):
        assert ours.encode(text) == reference_ids(tmp_path, text)


@cache
def reference_of(folder):
    return reference(folder)


def reference_ids(folder, text):
    return reference_of(folder)(text, split_special_tokens=True)["input_ids"]


WISHES = {
    "gpt2": [
        {},
        {"add_prefix_space": True},
        {"add_prefix_space": False, "model_max_length": 5, "padding_side": "left"},
        {"add_bos_token": False, "add_eos_token": False},
        {"pad_token": "<pad>"},
        {"additional_special_tokens": ["café", "<new>"]},
        {"extra_special_tokens": {"image_token": "<image>"}},
        {"mask_token": {**TOKEN, "content": "is", "__type": "AddedToken"}},
        {"clean_up_tokenization_spaces": True},
        {"added_tokens_decoder": {"500": {**TOKEN, "content": "thing", "special": False}}},
        {"add_prefix_space": True, "tokenizer_class": "GPT2TokenizerFast"},
        {"errors": "replace", "chat_template": "{{ messages }}", "tokenizer_class": None},
    ],
    "llama": [
        {"tokenizer_class": "LlamaTokenizer", "add_bos_token": False, "legacy": False},
        {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "</s>", "eos_token": "</s>"},
    ],
    "bert": [
        {},
        {"do_lower_case": False},
        {"do_lower_case": False, "strip_accents": True},
        {"strip_accents": False},
        {"tokenize_chinese_chars": False, "do_basic_tokenize": True, "never_split": None},
        {"clean_up_tokenization_spaces": True, "do_lower_case": True},
        {"sep_token": "[MASK]", "cls_token": "[PAD]"},
        {"unk_token": "[MASK]"},
        {"additional_special_tokens": ["[NEW]"]},
        {"do_lower_case": False, "tokenizer_class": "DistilBertTokenizer"},
    ],
}


@pytest.mark.parametrize("from_list", [False, True], ids=["tokenizer.json", "older files"])
@pytest.mark.parametrize(
    ("family", "wish"),
    [(family, wish) for family, all_ in WISHES.items() for wish in all_],
    ids=str,
)
def test_what_stands_beside_is_honoured_as_transformers_does(tmp_path, family, wish, from_list):
    described = json.loads(word_pieces() if family == "bert" else learnt())
    if "added_tokens_decoder" in wish:  # the class of GPT-2 then knows no others
        described["added_tokens"] = described["added_tokens"][:1]
    if from_list and family == "llama":
        pytest.skip("it has no older files")
    if from_list:
        ids = described["model"]["vocab"]
        (tmp_path / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
        lines = [" ".join(merge) for merge in described["model"].get("merges", ())]
        lines = "\n".join(["#version: 0.2", *lines, ""])
        (tmp_path / "merges.txt").write_text(lines, encoding="utf-8")
        (tmp_path / "vocab.txt").write_text("\n".join(sorted(ids, key=ids.get)), encoding="utf-8")
    ours = written(tmp_path, family, None if from_list else described, **wish)
    assert_alike(ours, reference(tmp_path))


FRAMES = [
    {"add_bos_token": True},
    {"add_bos_token": True, "add_eos_token": True, "bos_token": "<s>", "eos_token": "</s>"},
    {"add_eos_token": True, "eos_token": {**TOKEN, "content": "</s>", "__type": "AddedToken"}},
    {"add_eos_token": False},
]


@pytest.mark.parametrize("wish", FRAMES, ids=str)
def test_what_stands_around_a_text_is_honoured_or_refused(tmp_path, wish):
    described = json.loads(learnt())
    vocab, merges = described["model"]["vocab"], described["model"]["merges"]
    (tmp_path / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    lines = "\n".join(map(" ".join, merges))
    (tmp_path / "merges.txt").write_text(lines, encoding="utf-8")
    assert_alike(written(tmp_path, "gpt2", **wish), reference(tmp_path))
    if any(value is True for value in wish.values()):
        with pytest.raises(NotImplementedError, match=r"add_.os_token = True, tokenizer.json says"):
            written(tmp_path, "gpt2", described, **wish)
    described["post_processor"] = TEMPLATE
    with pytest.raises(NotImplementedError, match=r"add_bos_token = False, tokenizer.json says Tr"):
        written(tmp_path, "gpt2", described, add_bos_token=False, bos_token="<s>")
    ours = written(tmp_path, "llama", described, add_bos_token=True, bos_token="<s>")
    assert_alike(ours, reference(tmp_path))


def test_tokens_are_named_in_older_files_too(tmp_path):
    described = json.loads(learnt())
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"pad_token": "thing"}))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"newest": 500}))
    ours = written(tmp_path, "gpt2", described)
    assert "thing" in ours.special_tokens
    assert_alike(ours, reference(tmp_path))


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"dropout": 0.1}, "dropout is '0.1', and nothing is known about it"),
        ({"auto_map": {"AutoTokenizer": ["a.B", None]}}, "auto_map is"),
        ({"remove_space": True}, "remove_space is 'True'"),
        ({"errors": "strict"}, "errors is 'strict'; only 'replace'"),
        ({"never_split": ["naïve"]}, r"never_split is \['naïve'\]; only \[\]"),
        ({"sp_model_kwargs": {"alpha": 0.1}}, "sp_model_kwargs is .*; only {}"),
        ({"add_prefix_space": True}, "add_prefix_space = True, tokenizer.json says False"),
        ({"do_lower_case": True}, "do_lower_case = True, tokenizer.json says None"),
        ({"tokenize_chinese_chars": True}, "tokenize_chinese_chars = True"),
    ],
    ids=str,
)
def test_a_setting_that_nobody_would_honour_is_refused(tmp_path, wish, message):
    with pytest.raises(NotImplementedError, match=message):
        written(tmp_path, "llama", json.loads(learnt()), tokenizer_class="Other", **wish)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"add_bos_token": True, "bos_token": "<x>", "eos_token": 3}, "eos_token is '3'"),
        ({"add_prefix_space": "yes"}, "add_prefix_space must be true or false, got 'yes'"),
        ({"added_tokens_decoder": {"7": {"content": "x y"}}}, "'x y' cannot have the id 7"),
        ({"pad_token": {"lstrip": True}}, "a special token must be a text, got {'lstrip'"),
    ],
    ids=str,
)
def test_a_setting_of_another_kind_is_named(tmp_path, wish, message):
    with pytest.raises((ValueError, NotImplementedError), match=message):
        written(tmp_path, "llama", json.loads(learnt()), tokenizer_class="Other", **wish)


def test_bert_has_its_own_frame(tmp_path):
    described = json.loads(word_pieces())
    with pytest.raises(NotImplementedError, match="add_bos_token or add_eos_token is True"):
        written(tmp_path, "bert", described, add_bos_token=True)
    with pytest.raises(NotImplementedError, match="normalizer is 'NFC'; only 'BertNormalizer'"):
        written(tmp_path, "bert", changed(described, "normalizer", {"type": "NFC"}))


def test_every_harmless_setting_is_harmless(tmp_path):
    plain = written(tmp_path, "gpt2", json.loads(learnt()))
    said = {name: "x" for names in HARMLESS.values() for name in names}
    ours = written(tmp_path, "gpt2", json.loads(learnt()), **said, **ONLY)
    assert all(ours.encode(text) == plain.encode(text) for text in HARD.values())


MERGES = "model.merges"


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (MERGES, [["é", "é"]], "merge 0 of 'é' and 'é' does not fit the vocabulary"),
        (MERGES, ["t h x"], r"a merge must be two tokens, got \['t', 'h', 'x'\]"),
        (MERGES, [["t"]], "a merge must be two tokens"),
        ("model.vocab", {}, "does not fit the vocabulary"),
        ("model.type", "Unheard", "variant"),
        ("model", 5, "subscriptable|iterable"),
        ("normalizer", {"type": "Unheard"}, "Unheard|variant"),
        ("added_tokens", [{**ADDED, "id": 9}], "cannot have the id 9"),
        ("added_tokens", [{"content": "x"}], "missing field|id"),
    ],
)
def test_a_description_that_contradicts_itself_is_named(tmp_path, place, value, message, capfd):
    with pytest.raises(ValueError, match=r"tokenizer\.json is damaged, or no .*read") as caught:
        written(tmp_path, "llama", changed(json.loads(learnt()), place, value))
    assert caught.match(message)
    assert "panicked" not in capfd.readouterr().err


def test_words_need_a_token_for_the_unknown(tmp_path):
    described = changed(json.loads(word_pieces()), "model.unk_token", "<x>")
    with pytest.raises(ValueError, match="the token '<x>' for unknown words is not in the voc"):
        written(tmp_path, "llama", described)
    (tmp_path / "vocab.txt").write_text("[CLS]\n[SEP]\na\n")
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"vocab\.txt .*unknown words is not in the vocabulary"):
        tokenizers.from_folder("bert", tmp_path)
    (tmp_path / "vocab.txt").write_text("[CLS]\n[SEP]\n[UNK]\na\na\n")
    with pytest.raises(ValueError, match="it has 5 lines, but 4 tokens"):
        tokenizers.from_folder("bert", tmp_path)


@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"model": {"type": "BPE"}}'])
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_description_that_is_none_is_named(tmp_path, family, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        tokenizers.from_folder(family, tmp_path)


def test_a_mark_in_front_of_a_file_is_no_damage(tmp_path):
    plain = written(tmp_path, "gpt2", json.loads(learnt()), add_prefix_space=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        path = tmp_path / name
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    ours = tokenizers.from_folder("gpt2", tmp_path)
    assert all(ours.encode(text) == plain.encode(text) for text in HARD.values())


@pytest.fixture
def ours(tmp_path):
    return written(tmp_path, "gpt2", json.loads(learnt()))


def test_special_tokens_are_read_only_when_asked(ours):
    end = ours.special_id("<|endoftext|>")
    text = "a<|endoftext|>b"
    assert end not in ours.encode(text)
    ids = ours.encode(text, allow_special=True)
    assert ids.count(end) == 1
    assert ours.decode(ids) == text
    assert ours.decode(ids, skip_special=True) == "ab"
    with pytest.raises(ValueError, match="'<pad>' is not one of the special tokens"):
        ours.special_id("<pad>")


def test_bytes_lose_nothing(ours):
    for text in HARD.values():
        assert ours.decode(ours.encode(text)) == text
    ids = ours.encode("the best 注")
    assert "".join(ours.show(ids)).startswith("the best")
    assert [ours.vocab[token] for token in ours.tokens(ids)] == ids


def test_wrong_input_is_named(ours):
    with pytest.raises(TypeError, match="text must be a str, got bytes"):
        ours.encode(b"a")
    for wrong in (len(ours), -1):
        with pytest.raises(ValueError, match=f"id {wrong} is outside the vocabulary"):
            ours.decode([wrong])
    with pytest.raises(ValueError, match=r"half a character, '\\ud83d', at position 1"):
        ours.encode("a\ud83d")


def gguf_of(folder, **settings):
    """Build a tokenizer from the settings of a GGUF file with what was learnt."""
    described = json.loads(learnt())
    ids = described["model"]["vocab"]
    given = {"model": "gpt2", "pre": "gpt-2", "tokens": sorted(ids, key=ids.get)}
    given |= {"merges": [" ".join(merge) for merge in described["model"]["merges"]]}
    given |= {"token_type": [3] * 4 + [1] * (len(ids) - 4), "scores": [0.0], **settings}
    return tokenizers.from_gguf({f"tokenizer.ggml.{name}": v for name, v in given.items()})


@pytest.mark.parametrize("cutting", ["gpt-2", "smollm"])
def test_a_gguf_file_gives_the_reference_ids(tmp_path, cutting):
    described = json.loads(learnt())
    described["pre_tokenizer"] = DIGITS if cutting == "smollm" else BYTES
    expected = library.Tokenizer.from_str(json.dumps(described))
    expected.encode_special_tokens = True
    got = gguf_of(tmp_path, pre=cutting)
    for text in [*HARD.values(), *random_texts(100)]:
        assert got.encode(text) == expected.encode(text).ids
    assert got.special_tokens == ("<|endoftext|>", "<s>", "</s>", "[CLS]")


def test_what_a_gguf_file_puts_around_a_text_is_honoured(tmp_path):
    plain = gguf_of(tmp_path).encode("a b")
    both = gguf_of(tmp_path, add_bos_token=True, bos_token_id=1, add_eos_token=True, eos_token_id=2)
    assert both.encode("a b") == [1, *plain, 2]
    assert both.decode(both.encode("a b")) == "a b"
    assert gguf_of(tmp_path, add_bos_token=False, bos_token_id=1).encode("a b") == plain
    for number in (None, -1, 10**9, "1"):
        with pytest.raises(ValueError, match="around a text is not in the vocabulary"):
            gguf_of(tmp_path, add_bos_token=True, bos_token_id=number)


def test_a_token_that_a_user_added_is_found_in_a_text(tmp_path):
    ids = json.loads(learnt())["model"]["vocab"]
    number = next(n for token, n in ids.items() if len(token) == 3 and token.isascii())
    word = next(token for token, n in ids.items() if n == number)
    kinds = [4 if n == number else 1 for n in range(len(ids))]
    assert gguf_of(tmp_path, token_type=kinds).encode(f"x{word}x")[1] == number


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"add_space_prefix": True}, NotImplementedError, "add_space_prefix is 'True', and noth"),
        ({"precompiled_charsmap": [1]}, NotImplementedError, "precompiled_charsmap"),
        (
            {"model": "llama"},
            NotImplementedError,
            "'llama' that cuts like 'gpt-2'; known is 'gpt2'",
        ),
        ({"pre": "llama-bpe"}, NotImplementedError, "cuts like 'llama-bpe'"),
        ({"merges": None}, ValueError, "the GGUF file .*list its tokenizer's merges .*got none"),
        ({"tokens": None}, ValueError, "the GGUF file .*list its tokenizer's tokens .*got none"),
        ({"tokens": [1]}, ValueError, r"list its tokenizer's tokens as texts, got \[1\]"),
        ({"token_type": [1]}, ValueError, "the GGUF file is damaged"),
        ({"merges": ["t h x"]}, ValueError, "a merge must be two tokens"),
    ],
    ids=str,
)
def test_a_gguf_setting_that_does_not_fit_is_named(tmp_path, settings, error, message):
    with pytest.raises(error, match=message):
        gguf_of(tmp_path, **settings)


def test_minilm_and_smollm2_are_read_as_by_the_library():
    needs("minilm")
    needs("smollm2")
    assert_alike(tokenizers.from_folder("bert", locate("minilm")), reference(locate("minilm")))
    ours = tokenizers.from_gguf(read_gguf(locate("smollm2")).vocabulary)
    assert ours.tokens(ours.encode("It's 2024!")) == ["It", "'s", "Ġ", "2", "0", "2", "4", "!"]
    assert ours.decode(ours.encode("The naïve idea")) == "The naïve idea"
