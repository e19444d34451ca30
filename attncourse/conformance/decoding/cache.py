"""A cache in one array: what was appended is there, all of it, in order, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from attncourse import reference
from attncourse.conformance._case import Theme
from attncourse.conformance._check import close, true
from attncourse.conformance.decoding._container import (
    CacheSubject,
    Pair,
    appended,
    contents,
    holds,
)

THEME = Theme("cache")
SHAPE = (2, 3)


class _Model:
    """A cache, and beside it plain lists of what it must hold."""

    def __init__(self, subject: CacheSubject, seed: int = 0, **sizes: Any) -> None:
        self.subject, self.rng = subject, np.random.default_rng(seed)
        self.widths = (4, 5 if subject.has("value_dim") else 4)
        names = {"batch_size": SHAPE[0], "num_kv_heads": SHAPE[1], "head_dim": 4}
        self.cache = subject.make(**names, value_dim=self.widths[1], **sizes)
        self.held: Pair = tuple(np.zeros((*SHAPE, 0, width)) for width in self.widths)  # type: ignore[assignment]

    def append(self, count: int = 1) -> Any:
        new = self.subject.tokens(self.rng, (*SHAPE, count), self.widths)
        result = appended(self.subject, self.cache, new)
        key, value = (np.concatenate(pair, 2) for pair in zip(self.held, new, strict=True))
        self.held = key, value
        holds(f"after {key.shape[2]} tokens", contents(self.cache, result), self.held)
        return result

    def crop(self, length: int) -> None:
        self.cache.crop(length)
        self.held = self.held[0][:, :, :length], self.held[1][:, :, :length]


@THEME.case("one-token-at-a-time", "40 tokens, appended one by one, are there in order")
def _one(subject: CacheSubject) -> None:
    model = _Model(subject)
    for _ in range(40):
        model.append()


@THEME.case("many-tokens-at-once", "a prompt of 70 tokens, then one, then 9, then 200")
def _many(subject: CacheSubject) -> None:
    model = _Model(subject)
    for count in (70, 1, 9, 200):
        model.append(count)


@THEME.case("past-the-capacity", "a cache grows past its first capacity", needs={"capacity"})
def _capacity(subject: CacheSubject) -> None:
    for capacity in (1, 2, 3, 8):
        model = _Model(subject, capacity=capacity)
        for count in (1, 1, 2, 5, 1, 30):
            model.append(count)


@THEME.case("no-tokens", "appending no tokens changes nothing", level="full")
def _none(subject: CacheSubject) -> None:
    model = _Model(subject)
    for count in (0, 3, 0, 1):
        model.append(count)


@THEME.case("length", "len(cache) counts tokens", needs={"length"})
def _length(subject: CacheSubject) -> None:
    model = _Model(subject)
    true(len(model.cache) == 0, "length of an empty cache", "0", len(model.cache))
    for total, count in ((3, 3), (4, 1), (90, 86)):
        model.append(count)
        true(len(model.cache) == total, "length", str(total), len(model.cache))


@THEME.case("two-caches", "two caches share nothing")
def _two(subject: CacheSubject) -> None:
    first, second = _Model(subject, seed=1), _Model(subject, seed=2)
    for count in (2, 1, 3):
        first.append(count)
        second.append(count + 1)


@THEME.case(
    "tokens-are-copied", "overwriting a token after it was appended does not change the cache"
)
def _copied(subject: CacheSubject) -> None:
    model = _Model(subject)
    for count in (1, 5, 2):
        new = subject.tokens(model.rng, (*SHAPE, count), model.widths)
        natives = subject.natives(new)
        model.cache.append(*natives)
        for native in natives:
            native[...] = 9.0
        key, value = (np.concatenate(pair, 2) for pair in zip(model.held, new, strict=True))
        model.held = key, value
    model.append()


@THEME.case("strided-tokens", "tokens stored as (B, n, Hkv, E), as a model makes them")
def _strided(subject: CacheSubject) -> None:
    model = _Model(subject)
    for count in (3, 1, 4):
        new = subject.tokens(model.rng, (*SHAPE, count), model.widths)
        turned = new[0].swapaxes(1, 2), new[1].swapaxes(1, 2)
        views = [array.swapaxes(1, 2) for array in subject.natives(turned)]
        result = model.cache.append(*views)
        key, value = (np.concatenate(pair, 2) for pair in zip(model.held, new, strict=True))
        model.held = key, value
        holds("from strided tokens", contents(model.cache, result), model.held)


@THEME.case("crop", "after crop(n) the first n tokens are left", needs={"crop"})
def _crop(subject: CacheSubject) -> None:
    model = _Model(subject)
    model.append(9)
    for length in (9, 6, 1):
        model.crop(length)
        model.append(2)


@THEME.case("crop-to-nothing", "after crop(0) a cache is empty, and is filled anew", needs={"crop"})
def _crop_all(subject: CacheSubject) -> None:
    model = _Model(subject)
    model.append(5)
    model.crop(0)
    if subject.has("length"):
        true(len(model.cache) == 0, "length after crop(0)", "0", len(model.cache))
    model.append(3)


@THEME.case(
    "wrong-shape-is-refused",
    "tokens of another batch, other heads or another width are refused, and nothing is written",
    level="full",
)
def _refused(subject: CacheSubject) -> None:
    for shape, widths in (((3, 3), (4, 4)), ((2, 1), (4, 4)), ((2, 3), (3, 4)), ((2, 3), (1, 1))):
        model = _Model(subject)
        model.append(2)
        wrong = subject.tokens(model.rng, (*shape, 1), (widths[0], widths[1]))
        try:
            model.cache.append(*subject.natives(wrong))
        except Exception:
            model.append(1)
            continue
        true(False, f"append of {wrong[0].shape} to (2, 3, n, 4)", "an error", "none")


@THEME.case("random-walk", "200 random appends and crops end where lists end", level="full")
def _walk(subject: CacheSubject) -> None:
    model = _Model(subject, seed=7)
    for _ in range(200):
        if subject.has("crop") and model.rng.random() < 0.3:
            model.crop(int(model.rng.integers(0, model.held[0].shape[2] + 1)))
        else:
            model.append(int(model.rng.integers(0, 7)))


@THEME.case("reads-a-text", "attention over the cache gives the rows of causal attention")
def _text(subject: CacheSubject) -> None:
    model = _Model(subject)
    query = np.random.default_rng(9).standard_normal((*SHAPE, 10, 4))
    rows = []
    for t in range(10):
        key, value = contents(model.cache, model.append())
        rows.append(reference.attention(query[:, :, t : t + 1], key, value))
    wanted = reference.attention(query, *model.held, is_causal=True)
    close("rows", np.concatenate(rows, 2), wanted, 1e-12)
