"""Encoding loses nothing; special tokens, padding and bad input behave as documented."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attncourse.text import NUM_BYTES, Tokenizer, pad, train_bpe

LESSON = "the cat sat on the mat; the rat sat on the cat. 注意力 注意力 🙂🙂 the end\n\n  the end"
TOKENIZER = train_bpe(LESSON, 290, ("<pad>", "<pad>>"))


@settings(deadline=None)
@given(st.text())
def test_any_text_comes_back(text):
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text
    assert all(0 <= token < NUM_BYTES + len(TOKENIZER.merges) for token in ids)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["<pad>", "<pad>>", "the ", "注", "<", "pad", ">"]), max_size=8))
def test_any_text_with_special_tokens_comes_back(parts):
    text = "".join(parts)
    for allow_special in (True, False):
        assert TOKENIZER.decode(TOKENIZER.encode(text, allow_special=allow_special)) == text


@pytest.mark.parametrize(
    "text", ["注意力机制", "👩‍👩‍👧‍👦 family", "a\u0301", "\x00\r\n\t", "हिन्दी"], ids=ascii
)
def test_awkward_texts_come_back(text):
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_learnt_text_becomes_shorter_and_unknown_text_stays_bytes():
    assert len(TOKENIZER.encode(LESSON)) < len(LESSON.encode()) / 2
    assert TOKENIZER.encode("ЖЖ") == list("ЖЖ".encode())
    assert len(TOKENIZER.encode(" the")) == 1


def test_encoding_applies_merges_in_the_order_learnt():
    # With "bc" learnt before "ab", "abc" is a + bc although "ab" stands first.
    a, b, c = b"abc"
    assert Tokenizer(((b, c), (a, b))).encode("abc") == [a, 256]
    assert Tokenizer(((a, b), (b, c))).encode("abc") == [256, c]


def test_special_tokens_are_plain_text_unless_asked_for():
    ids = TOKENIZER.encode("the<pad>", allow_special=True)
    assert ids[-1] == TOKENIZER.special_id("<pad>") == len(TOKENIZER) - 2
    assert TOKENIZER.special_id("<pad>") not in TOKENIZER.encode("the<pad>")
    longest = TOKENIZER.encode("<pad>>", allow_special=True)
    assert longest == [TOKENIZER.special_id("<pad>>")]
    with pytest.raises(ValueError, match="'<end>' is not one of"):
        TOKENIZER.special_id("<end>")


def test_a_cut_character_is_an_error_unless_told_otherwise():
    ids = list("é".encode())[:1]
    with pytest.raises(UnicodeDecodeError):
        TOKENIZER.decode(ids)
    assert TOKENIZER.decode(ids, errors="replace") == "\ufffd"
    assert TOKENIZER.show(ids) == ["\\xc3"]


def test_vocabulary_has_the_size_asked_for():
    assert len(train_bpe(LESSON, 256)) == 256
    assert len(train_bpe(LESSON, 270, ("<pad>",))) == 270
    assert len(train_bpe("ab", 400)) == 256
    with pytest.raises(ValueError, match=r"vocab_size 256 is too small.*need 257"):
        train_bpe(LESSON, 256, ("<pad>",))


def test_bad_input_is_named():
    with pytest.raises(TypeError, match="text must be a str, got bytes"):
        TOKENIZER.encode(b"the")
    for text, place in (("\ud800", 0), ("the \udfff", 4), ("\ud83d \ude00", 0)):
        for read in (TOKENIZER.encode, partial(train_bpe, vocab_size=300)):
            with pytest.raises(ValueError, match=f"got half a character, .* at position {place}"):
                read(text)
    with pytest.raises(ValueError, match=f"id {len(TOKENIZER)} is outside"):
        TOKENIZER.decode([0, len(TOKENIZER)])
    with pytest.raises(ValueError, match="id -1 is outside"):
        TOKENIZER.decode([-1])
    with pytest.raises(ValueError, match="merge 1 joins symbols 257 and 0"):
        Tokenizer(((0, 1), (257, 0)))
    with pytest.raises(ValueError, match="distinct"):
        Tokenizer((), ("<a>", "<a>"))


def test_pad_marks_what_is_real():
    ids, attend = pad([[3, 1], [], [7, 8, 9]], pad_id=5)
    np.testing.assert_array_equal(ids, [[3, 1, 5], [5, 5, 5], [7, 8, 9]])
    np.testing.assert_array_equal(attend, [[1, 1, 0], [0, 0, 0], [1, 1, 1]])
    assert ids.dtype == np.int64
    assert attend.dtype == bool
    with pytest.raises(ValueError, match="at least one sequence"):
        pad([], pad_id=0)
