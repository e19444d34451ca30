"""The drawing of a cache: which column is new, and that the new query reads every key."""

import re

import pytest

from attncourse.plotting.cache_drawing import cache_step


def test_the_query_reads_every_key_and_only_the_last_word_is_new():
    picture = cache_step(["The", "river", "bank"])
    svg = picture.svg()
    assert "keys and values of The, river are kept; bank adds" in picture.alt
    letters = re.findall(r">([^<]+)</text>", svg)
    assert [letters.count(name) for name in ("k", "v", "q", "out")] == [3, 3, 1, 1]
    heads = re.findall(r'stroke="var\(--q-text, #0072B2\)" stroke-width="1.5"/><path', svg)
    assert len(heads) == 3


@pytest.mark.parametrize("words", [["one"], list("abcdef"), ["incomprehensibilities", "a", "b"]])
def test_what_does_not_fit_is_refused(words):
    with pytest.raises(ValueError, match=r"words must be|wide, its room"):
        cache_step(words)
