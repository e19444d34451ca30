"""Tokenizers of trained models: the ids of the reference tokenizers, on hard texts."""

import json
import os
import random
import unicodedata
from functools import cache

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("regex")

from attncourse.pretrained import available, tokenizers  # noqa: E402
from attncourse.pretrained.byte_pairs import CHARACTERS, BytePairs, cut  # noqa: E402
from attncourse.pretrained.loading import locate  # noqa: E402
from attncourse.pretrained.quantised import read_gguf  # noqa: E402
from attncourse.text import tokenizer as course_text  # noqa: E402

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
    """Learn a vocabulary with the course's tokenizer and write it as GPT-2's files do."""
    ours = course_text.train_bpe(" ".join(HARD.values()) * 2, 500)
    spelt = ["".join(CHARACTERS[byte] for byte in token) for token in ours.vocab]
    merges = [(spelt[left], spelt[right]) for left, right in ours.merges]
    vocab = {token: number for number, token in enumerate([*spelt[::-1], "<|endoftext|>"])}
    return vocab, merges


def reference(vocab, merges, digits_alone, special=()):
    """Build the same tokenizer with Hugging Face's library."""
    library = pytest.importorskip("tokenizers")
    built = library.Tokenizer(library.models.BPE(vocab, merges))
    steps = [library.pre_tokenizers.ByteLevel(add_prefix_space=False)]
    if digits_alone:
        steps.insert(0, library.pre_tokenizers.Digits(individual_digits=True))
    built.pre_tokenizer = library.pre_tokenizers.Sequence(steps)
    built.decoder = library.decoders.ByteLevel()
    built.add_special_tokens(list(special))
    return built


@pytest.fixture(scope="module", params=["gpt2-rule", "digits-alone", "smollm2"])
def byte_pairs(request):
    """Return our tokenizer and the reference."""
    if request.param == "smollm2":
        needs("smollm2")
        vocabulary = read_gguf(locate("smollm2")).vocabulary
        ours = tokenizers.from_gguf(vocabulary)
        merges = [tuple(m.split(" ")) for m in vocabulary["tokenizer.ggml.merges"]]
        return ours, reference(ours.vocab, merges, True)
    digits_alone = request.param == "digits-alone"
    vocab, merges = learnt()
    ours = BytePairs(vocab, merges, ["<|endoftext|>"], digits_alone=digits_alone)
    return ours, reference(vocab, merges, digits_alone)


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
def test_byte_pairs_give_the_reference_ids(byte_pairs, text):
    ours, theirs = byte_pairs
    ids = ours.encode(text)
    assert ids == theirs.encode(text).ids
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=False)
    if len(ours) < 1000:  # a vocabulary that has all bytes loses nothing
        assert ours.decode(ids) == text
    assert "".join(ours.show(ids)).isprintable() or text


def test_byte_pairs_give_the_reference_ids_on_any_text(byte_pairs):
    ours, theirs = byte_pairs
    for text in random_texts(400):
        assert ours.encode(text) == theirs.encode(text).ids, ascii(text)


def test_cutting_loses_nothing():
    for text in [*HARD.values(), *random_texts(200)]:
        assert "".join(cut(text)) == "".join(cut(text, digits_alone=True)) == text


def test_special_tokens_are_read_only_when_asked(byte_pairs):
    ours, _ = byte_pairs
    end = ours.special_id("<|endoftext|>")
    text = "a<|endoftext|>b"
    assert end not in ours.encode(text)
    ids = ours.encode(text, allow_special=True)
    assert ids.count(end) == 1
    assert ours.decode(ids) == text
    with pytest.raises(ValueError, match="'<pad>' is not one of the special tokens"):
        ours.special_id("<pad>")


def test_wrong_input_is_named(byte_pairs):
    ours, _ = byte_pairs
    with pytest.raises(TypeError, match="text must be a str, got bytes"):
        ours.encode(b"a")
    with pytest.raises(ValueError, match=f"id {len(ours)} is outside the vocabulary"):
        ours.decode([len(ours)])


@pytest.mark.parametrize(
    ("vocab", "merges", "special", "message"),
    [
        (["a", "b"], [("a", "b")], [], "merge 0 of 'a' and 'b' does not fit"),
        (["a", "ab"], [("a", "b")], [], "merge 0 of 'a' and 'b' does not fit"),
        (["a", "b", "ab"], [("a", "b")] * 2, [], "merge 1 of 'a' and 'b' does not fit"),
        (["a"], [], ["<s>"], "special token '<s>' is not in the vocabulary"),
    ],
    ids=["no-result", "no-part", "twice", "special"],
)
def test_a_vocabulary_that_contradicts_itself_is_named(vocab, merges, special, message):
    with pytest.raises(ValueError, match=message):
        BytePairs({token: number for number, token in enumerate(vocab)}, merges, special)


def test_the_two_ways_in_which_gpt2_is_written_are_read_alike(tmp_path):
    vocab, merges = learnt()
    (tmp_path / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    lines = ["#version: 0.2", *map(" ".join, merges)]
    (tmp_path / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    plain = tokenizers.from_folder("gpt2", tmp_path)
    assert plain.special_tokens == ("<|endoftext|>",)
    path = tmp_path / "tokenizer.json"
    for digits_alone in (False, True):
        reference(vocab, merges, digits_alone, ["<|endoftext|>"]).save(str(path))
        described = tokenizers.from_folder("gpt2", tmp_path)
        assert described.special_tokens == plain.special_tokens
        assert described.digits_alone == digits_alone
        for text in HARD.values():
            same = described.encode(text) == plain.encode(text)
            assert same or (digits_alone and any(character.isnumeric() for character in text))


ADDED = {"content": "<s>", "id": 0}
BYTES = {"type": "ByteLevel"}
PARTS = [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]
TEMPLATE = {"type": "TemplateProcessing", "single": PARTS}
FRAME = {"type": "BertProcessing", "cls": ["[CLS]", 101], "sep": ["[SEP]", 102]}
ROBERTA = {"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]}


def changed(described, place, value):
    *keys, last = place.split(".")
    part = described
    for key in keys:
        part = part[int(key) if key.isdigit() else key]
    part[last] = value
    return described


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("normalizer", {"type": "NFC"}, "normalizer is {'type': 'NFC'}; only None"),
        ("model.type", "Unigram", "model is 'Unigram'; only 'BPE'"),
        ("model.byte_fallback", True, "byte_fallback is True"),
        ("model.ignore_merges", True, "ignore_merges is True"),
        ("pre_tokenizer.pretokenizers.0.add_prefix_space", True, "add_prefix_space is True"),
        ("pre_tokenizer.pretokenizers.0.use_regex", False, "use_regex is False"),
        ("pre_tokenizer.pretokenizers.0.type", "Metaspace", "pre_tokenizer is 'Metaspace'"),
        ("pre_tokenizer", None, "pre_tokenizer is None"),
        ("pre_tokenizer.pretokenizers", [], "pre_tokenizer is None"),
        ("post_processor", TEMPLATE, r"tokens around a text is \['<s>', 'A'\]; only \['A'\]"),
        ("post_processor", {"type": "Sequence", "processors": [BYTES, TEMPLATE]}, "'<s>', 'A'"),
        ("post_processor", ROBERTA, r"tokens around a text is \['<s>', 'A', '</s>'\]"),
        ("post_processor", {"type": "Unheard"}, r"tokens around a text is \['Unheard'\]"),
        ("model.dropout", 0.1, "dropout is 0.1"),
        ("model.end_of_word_suffix", "</w>", "end_of_word_suffix is '</w>'"),
        ("model.continuing_subword_prefix", "##", "continuing_subword_prefix is '##'"),
        ("added_tokens", [{**ADDED, "lstrip": True}], "lstrip of '<s>' is True"),
        ("added_tokens", [{**ADDED, "single_word": True}], "single_word of '<s>' is True"),
        ("added_tokens", [{**ADDED, "special": False}], "special of '<s>' is False"),
    ],
)
def test_a_rule_that_we_do_not_have_is_refused(tmp_path, place, value, message):
    described = json.loads(reference(*learnt(), False).to_str())
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(changed(described, place, value)), encoding="utf-8")
    with pytest.raises(NotImplementedError, match=message):
        tokenizers.from_folder("llama", tmp_path)


def test_a_stand_in_for_unknown_bytes_is_refused_where_a_byte_is_unknown(tmp_path):
    described = json.loads(reference(*learnt(), False).to_str())
    described["model"]["unk_token"] = "a"
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(described), encoding="utf-8")
    tokenizers.from_folder("llama", tmp_path)  # every byte has a token: there is nothing unknown
    described["model"]["merges"] = []
    del described["model"]["vocab"]["!"]
    path.write_text(json.dumps(described), encoding="utf-8")
    with pytest.raises(NotImplementedError, match="unk_token is 'a'; only None"):
        tokenizers.from_folder("llama", tmp_path)


@pytest.mark.parametrize("content", [{}, {"model": 5}, {"model": {"type": "BPE"}}], ids=str)
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_description_that_is_none_is_named(tmp_path, family, content):
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises((ValueError, NotImplementedError), match="tokenizer"):
        tokenizers.from_folder(family, tmp_path)


@pytest.mark.parametrize("name", ["add_bos_token", "add_eos_token", "add_prefix_space"])
def test_tokens_around_a_text_are_refused_beside_a_vocabulary_too(tmp_path, name):
    (tmp_path / "vocab.json").write_text('{"a": 0}')
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({name: True}))
    with pytest.raises(NotImplementedError, match=f"{name} is True; only False"):
        tokenizers.from_folder("gpt2", tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("add_bos_token", True, "add_bos_token is True"),
        ("add_space_prefix", True, "add_space_prefix is True"),
        ("token_type", [1, 4], "tokens that users added is 1; only 0"),
    ],
)
def test_what_a_gguf_tokenizer_adds_is_refused(name, value, message):
    described = {"model": "gpt2", "pre": "smollm", "tokens": ["a", "b"], "merges": []}
    described |= {"token_type": [1, 1]}
    given = {f"tokenizer.ggml.{key}": came for key, came in {**described, name: value}.items()}
    with pytest.raises(NotImplementedError, match=message):
        tokenizers.from_gguf(given)


def test_a_gguf_tokenizer_that_we_do_not_have_is_refused():
    with pytest.raises(NotImplementedError, match="'llama' that cuts like None; known is 'gpt2'"):
        tokenizers.from_gguf({"tokenizer.ggml.model": "llama"})
    with pytest.raises(NotImplementedError, match="cuts like 'llama-bpe'"):
        tokenizers.from_gguf({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "llama-bpe"})


@pytest.fixture(scope="module")
def minilm():
    """Return our WordPiece with MiniLM's vocabulary, and the reference."""
    needs("minilm")
    transformers = pytest.importorskip("transformers")
    folder = locate("minilm")
    theirs = transformers.BertTokenizerFast.from_pretrained(folder)
    return tokenizers.from_folder("bert", folder), theirs


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
def test_word_pieces_give_the_reference_ids(minilm, text):
    ours, theirs = minilm
    ids = ours.encode(text)
    reference_ids = theirs(text.replace("[MASK]", "[ MASK ]").replace("[CLS]", "[ CLS ]"))
    assert ids == reference_ids["input_ids"]
    assert ours.encode(text, add_special=False) == ids[1:-1]
    assert ours.encode(text, allow_special=True) == theirs(text)["input_ids"]


def test_word_pieces_give_the_reference_ids_on_any_text(minilm):
    ours, theirs = minilm
    texts = list(random_texts(400))
    for text, ids in zip(texts, theirs(texts)["input_ids"], strict=True):
        assert ours.encode(text) == ids, ascii(text)


def test_word_pieces_are_decoded_without_their_frame(minilm):
    ours, _ = minilm
    ids = ours.encode("The movie was not bad")
    assert ours.vocab[ids[0]] == "[CLS]"
    assert ours.decode(ids) == "the movie was not bad"


def test_word_pieces_from_either_file(tmp_path, minilm):
    ours, theirs = minilm
    theirs.save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").unlink(missing_ok=True)
    described = tokenizers.from_folder("bert", tmp_path)
    assert all(described.encode(text) == ours.encode(text) for text in HARD.values())
    (tmp_path / "tokenizer.json").unlink()
    assert tokenizers.from_folder("bert", tmp_path) is None


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("model.unk_token", "<unk>", "unk_token is '<unk>'"),
        ("model.continuing_subword_prefix", "@@", "continuing_subword_prefix is '@@'"),
        ("normalizer.clean_text", False, "clean_text is False"),
        ("normalizer.handle_chinese_chars", False, "handle_chinese_chars is False"),
        ("pre_tokenizer.type", "WhitespaceSplit", "pre_tokenizer is 'WhitespaceSplit'"),
        ("post_processor", None, r"tokens around a text is \['A'\]; only \['\[CLS\]', 'A'"),
        (
            "post_processor",
            {"type": "Sequence", "processors": [FRAME, FRAME]},
            r"tokens around a text is \['\[CLS\]', 'A', '\[SEP\]', '\[CLS\]'",
        ),
        ("added_tokens", [{"content": "no such word", "id": 9}], "outside the vocabulary is"),
    ],
)
def test_a_described_word_piece_rule_that_we_do_not_have_is_refused(
    tmp_path, minilm, place, value, message
):
    path = tmp_path / "tokenizer.json"
    minilm[1].backend_tokenizer.save(str(path))
    described = changed(json.loads(path.read_text(encoding="utf-8")), place, value)
    path.write_text(json.dumps(described), encoding="utf-8")
    with pytest.raises(NotImplementedError, match=message):
        tokenizers.from_folder("bert", tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"strip_accents": False}, "strip_accents"), ({"tokenize_chinese_chars": False}, "chinese")],
)
def test_a_word_piece_rule_that_we_do_not_have_is_refused(tmp_path, settings, message):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nA\na\n")
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({"do_lower_case": False}))
    assert tokenizers.from_folder("bert", tmp_path).encode("A a") == [2, 4, 5, 3]
    config.write_text(json.dumps(settings))
    with pytest.raises(NotImplementedError, match=message):
        tokenizers.from_folder("bert", tmp_path)
