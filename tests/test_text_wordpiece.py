"""WordPiece reads as BERT's own tokenizers do, and says what it loses."""

import random
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attncourse.text.wordpiece import SPECIAL, WordPiece, basic_words

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'\"-_$^()[]注意力機é🙂ßяжαβが한"
PARTS = ["un", "##believ", "##able", "##aff", "the", "##ing", "hello", "world", "mask", "Hello"]
VOCAB = (*SPECIAL, *LETTERS, *("##" + letter for letter in LETTERS), *PARTS)

HARD = [
    "",
    "   \t\r\n ",
    "Hello, WORLD!",
    "unbelievable unaffable unbelievableing",
    "Ünbelievable   naïve façade Ångström İstanbul",
    "a\u0301 e\u0301\u0323 \u212b \u1e9b\u0323",
    "注意力機制 and 注 意力",
    "日本語がこれ 한국어 𠀀𪜀",
    "🙂 👩‍👩‍👧‍👦 ❤️ x🙂y",
    "\x00a\x01b\x7fc\ufffdd\u200be\u00adf\ufeffg\u2028h\u2029i\x0bj\x0ck\x85l\u00a0m\u3000n",
    "$5.00^2 ~`|<=> _under_score_ “quoted” …—–",
    "don't can't 'tis rock'n'roll",
    "[MASK] the [SEP] [CLS]the [UNK] [mask] [ MASK ]",
    "Straße ΑΒΓ ЯЖ ﬁne ½ ²",
    "a" * 100,
    "a" * 101,
    "##able ## #the",
    "\ue000private\U000f0000",
]


def write(folder, vocab=VOCAB):
    path = folder / "vocab.txt"
    path.write_text("\n".join(vocab) + "\n", encoding="utf-8")
    return path


@pytest.fixture(params=[True, False], ids=["uncased", "cased"])
def both(request, tmp_path):
    """Return ours and BERT's tokenizer, on the same vocabulary file."""
    transformers = pytest.importorskip("transformers")
    path = write(tmp_path)
    theirs = transformers.BertTokenizer(str(path), do_lower_case=request.param)
    return WordPiece.from_file(path, lower=request.param), theirs


@pytest.mark.parametrize("text", HARD, ids=ascii)
def test_hard_texts_give_the_tokens_of_transformers(both, text):
    ours, theirs = both
    assert ours.tokens(text, allow_special=True) == theirs.tokenize(text)
    assert ours.encode(text, add_special=True, allow_special=True) == theirs(text)["input_ids"]


def test_random_signs_give_the_tokens_of_transformers(both):
    # Signs that Unicode 3.2 had: the tables inside `tokenizers` are older than Python's.
    ours, theirs = both
    old = unicodedata.ucd_3_2_0.category
    known = [
        chr(code)
        for code in range(0x30000)
        if old(chr(code)) == unicodedata.category(chr(code)) not in ("Cn", "Cs")
    ]
    randomly = random.Random(0)
    for _ in range(1500):
        text = "".join(randomly.choices(known, k=6) + randomly.choices(LETTERS + " ", k=6))
        assert ours.tokens(text, allow_special=True) == theirs.tokenize(text), ascii(text)


@pytest.mark.parametrize("lower", [True, False], ids=["uncased", "cased"])
def test_hard_texts_give_the_tokens_of_tokenizers(tmp_path, lower):
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.BertWordPieceTokenizer(str(write(tmp_path)), lowercase=lower)
    ours = WordPiece(VOCAB, lower=lower)
    for text in HARD:
        encoding = theirs.encode(text)
        assert ours.encode(text, add_special=True, allow_special=True) == encoding.ids


def test_a_word_is_the_longest_part_first_and_all_or_nothing():
    pieces = WordPiece(("[UNK]", "a", "ab", "abc", "##c", "##cd", "##d"))
    assert pieces.tokens("abcd") == ["abc", "##d"]
    assert pieces.tokens("abd ac") == ["ab", "##d", "a", "##c"]
    # "ab" + "##cd" would spell it, but the greedy rule took "abc" and finds no "##de".
    assert pieces.tokens("abcde") == ["[UNK]"]
    assert pieces.tokens("zab ab") == ["[UNK]", "ab"]


@settings(deadline=None)
@given(st.text())
def test_basic_words_hold_no_space_and_settle(text):
    words = basic_words(text)
    assert all(word and not any(sign.isspace() for sign in word) for word in words)
    again = basic_words(" ".join(words))
    assert basic_words(" ".join(again)) == again


@settings(deadline=None)
@given(st.text(alphabet="Theun bliaving,.!?É"))
def test_what_comes_back_is_the_basic_words(text):
    pieces = WordPiece(VOCAB)
    ids = pieces.encode(text)
    assert pieces.decode(ids) == " ".join(basic_words(text))
    assert pieces.encode(pieces.decode(ids)) == ids


def test_what_is_lost_is_lost():
    pieces = WordPiece(VOCAB)
    for text in ("Hello world", "hello  world", "HELLO\nWORLD", "héllo\u200b world"):
        assert pieces.decode(pieces.encode(text)) == "hello world"
    assert pieces.decode(pieces.encode("hello, world")) == "hello , world"
    assert pieces.decode(pieces.encode("hello ☃")) == "hello [UNK]"


def test_special_tokens_are_plain_text_unless_asked_for():
    pieces = WordPiece(VOCAB)
    mask = pieces.id_of("[MASK]")
    assert mask in pieces.encode("the [MASK]", allow_special=True)
    assert pieces.tokens("the [MASK]") == ["the", "[", "mask", "]"]
    ids = pieces.encode("the", add_special=True)
    assert [pieces.vocab[number] for number in ids] == ["[CLS]", "the", "[SEP]"]
    assert pieces.decode(ids) == "[CLS] the [SEP]"
    assert pieces.decode(ids, skip_special=True) == "the"


def test_a_file_written_on_windows_is_the_same_vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("\r\n".join(("[UNK]", "\u2028", "the")).encode() + b"\r\n")
    assert WordPiece.from_file(path).vocab == ("[UNK]", "\u2028", "the")


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="token 'a' occurs more than once"):
        WordPiece(("[UNK]", "a", "a"))
    with pytest.raises(ValueError, match=r"'\[UNK\]' is not in the vocabulary of 1 tokens"):
        WordPiece(("a",))
    with pytest.raises(ValueError, match="'<s>' is not in the vocabulary"):
        WordPiece(("[UNK]",), special_tokens=("<s>",))
    pieces = WordPiece(("[UNK]", "a"))
    with pytest.raises(ValueError, match=r"'\[CLS\]' is not in the vocabulary"):
        pieces.encode("a", add_special=True)
    with pytest.raises(ValueError, match="id 2 is outside the vocabulary of 2 tokens"):
        pieces.decode([0, 2])
    with pytest.raises(TypeError, match="text must be a str, got bytes"):
        pieces.encode(b"a")
    with pytest.raises(TypeError, match="text must be a str, got list"):
        pieces.tokens(["a"], allow_special=True)


def test_half_a_character_is_refused_and_not_dropped():
    pieces = WordPiece(VOCAB)
    for read in (basic_words, pieces.tokens, pieces.encode):
        with pytest.raises(ValueError, match=r"got half a character, '\\ud83d', at position 4"):
            read("the \ud83d")


def test_a_word_is_spelt_once(monkeypatch):
    pieces, asked = WordPiece(VOCAB), []
    spell = WordPiece._spell
    monkeypatch.setattr(WordPiece, "_spell", lambda self, w: asked.append(w) or spell(self, w))
    assert pieces.tokens("hello world hello") == ["hello", "world", "hello"]
    assert pieces.tokens("HELLO") == ["hello"]
    assert sorted(asked) == ["hello", "world"]
