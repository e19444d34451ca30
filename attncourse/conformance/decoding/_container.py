"""A cache under test: how it is made, filled and read, in one array or in pages.

The numbers that are stored are eighths, which every floating-point type holds exactly: what
is read back must be equal to the last bit, whatever type a cache keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncourse.conformance._check import same_bits, true
from attncourse.conformance._infer import arguments_of
from attncourse.conformance._subject import Subject, check_library, guarded, to_numpy
from attncourse.conformance.decoding._infer import LIBRARIES, known

FEATURES = {
    "crop": "crop(length): forget every token from there on",
    "length": "len(cache)",
    "capacity": "capacity: room for so many tokens at first",
    "value_dim": "value_dim: values of another width than keys",
    "pool": "a pool of pages for many sequences: add, append, block_table",
    "fork": "fork(sequence): a sequence that begins like another",
    "free": "free(sequence)",
    "count": "free_pages",
}
METHODS = {"crop": "crop", "fork": "fork", "free": "free", "block_table": "pool"}
ARGUMENTS = {"capacity": "capacity", "value_dim": "value_dim"}
Pair = tuple[np.ndarray, np.ndarray]
Widths = tuple[int, int]


@dataclass
class CacheSubject(Subject):
    """A cache under test; `function` makes an empty one."""

    arguments: frozenset[str] = frozenset()

    def make(self, **sizes: Any) -> Any:
        """Make a cache, told the sizes and the type by the names that it has."""
        given = {name: size for name, size in sizes.items() if name in self.arguments}
        if "dtype" in self.arguments:
            given["dtype"] = self.native(0.0, "float64").dtype
        with guarded():
            return self.function(**given)

    def tokens(self, rng: np.random.Generator, shape: tuple[int, ...], widths: Widths) -> Pair:
        """Draw keys and values of new tokens, in eighths."""
        key, value = (rng.integers(-64, 64, (*shape, width)) / 8 for width in widths)
        return key, value

    def natives(self, pair: Pair) -> list[Any]:
        """Turn keys and values into the cache's library."""
        return [self.native(array, "float64") for array in pair]


def appended(subject: CacheSubject, cache: Any, pair: Pair, *before: Any) -> Any:
    """Append tokens; check that they are left as they were."""
    natives = subject.natives(pair)
    with guarded():
        result = cache.append(*before, *natives)
    for name, native, array in zip(("key", "value"), natives, pair, strict=True):
        same_bits(f"appended {name}, afterwards", to_numpy(native), array)
    return result


def contents(cache: Any, result: Any) -> Pair:
    """Read a cache in one array: what `append` returned, else its `key` and `value`.

    Raises
    ------
    Mismatch
        When there is neither.
    """
    pair = result if isinstance(result, tuple) else tuple(
        getattr(cache, name, None) for name in ("key", "value")
    )  # fmt: skip
    whole = len(pair) == 2 and all(hasattr(array, "shape") for array in pair)
    wanted = "(key, value) from append, or the attributes key and value"
    true(whole, "what the cache holds", wanted, type(result).__name__)
    return to_numpy(pair[0]), to_numpy(pair[1])


def holds(what: str, came: Pair, wanted: Pair) -> None:
    """Compare keys and values with those that were stored, to the last bit."""
    for name, ours, theirs in zip(("keys", "values"), came, wanted, strict=True):
        same_bits(f"{name} {what}", ours, theirs)


def cache_subject(
    make: Callable[..., Any],
    features: Iterable[str] | None = None,
    library: str | None = None,
) -> CacheSubject:
    """Wrap a class, or a function that makes a cache, for the suite.

    Raises
    ------
    ValueError
        For an unknown feature or library.
    TypeError
        When nothing can be made, or what is made has no `append`.
    """
    if not callable(make):
        raise TypeError(f"wanted a class or a function that makes a cache, got {make!r}")
    if library is not None:
        check_library(library)
    name = f"{getattr(make, '__module__', '?')}:{getattr(make, '__name__', type(make).__name__)}"
    arguments = frozenset(arguments_of(make))
    subject = CacheSubject(name, make, library or "numpy", frozenset(), arguments=arguments)
    found = {feature for name, feature in ARGUMENTS.items() if name in arguments}
    trial = None
    for choice in (library,) if library else LIBRARIES:
        subject.library = choice
        trial = _tried(subject)
        if trial is not None:
            break
    if trial is None:
        raise TypeError(f"{name} makes no cache that two tokens can be appended to")
    found |= {feature for name, feature in METHODS.items() if hasattr(trial, name)}
    found |= {"length"} if hasattr(trial, "__len__") else set()
    found |= {"count"} if hasattr(trial, "free_pages") else set()
    subject.features = frozenset(found) if features is None else known(features, FEATURES)
    subject.found_by = "given" if features is not None else "found by its methods and arguments"
    return subject


SIZES = {
    "batch_size": 2, "num_kv_heads": 2, "head_dim": 4, "value_dim": 4,
    "num_pages": 4, "page_size": 2,
}  # fmt: skip


def _tried(subject: CacheSubject) -> Any:
    """Make a cache and append two tokens; None when that fails."""
    try:
        cache = subject.make(**SIZES)
        if hasattr(cache, "block_table"):
            cache.append(cache.add(), *subject.natives((np.ones((2, 2, 4)), np.ones((2, 2, 4)))))
        else:
            cache.append(*subject.natives((np.ones((2, 2, 2, 4)), np.ones((2, 2, 2, 4)))))
    except (Exception, SystemExit):
        return None
    return cache
