"""Run a decode function or a cache through its cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import Any

from attncourse.conformance._case import Case
from attncourse.conformance._report import Report
from attncourse.conformance._run import gathered, report_on
from attncourse.conformance.decoding._container import cache_subject
from attncourse.conformance.decoding._infer import step_subject

STEPS = ("step", "ends", "parts", "reads", "reuse")
CACHES = ("cache", "pool")


@cache
def step_cases() -> tuple[Case, ...]:
    """Return every case for decode functions."""
    return gathered(f"attncourse.conformance.decoding.{theme}" for theme in STEPS)


@cache
def cache_cases() -> tuple[Case, ...]:
    """Return every case for caches."""
    return gathered(f"attncourse.conformance.decoding.{theme}" for theme in CACHES)


def run_decode(
    fn: Callable[..., Any] | str,
    level: str = "quick",
    features: Iterable[str] | None = None,
    *,
    library: str | None = None,
    only: str | Iterable[str] = "",
    strict: bool = False,
) -> Report:
    """Run a decode function, your own or the package's, through the suite.

    Parameters
    ----------
    fn : callable or {"decode", "paged_decode"}
        Takes query (B, H, L, E), key (B, Hkv, S, E) and value (B, Hkv, S, Ev) by position: the
        L newest tokens and the cache that holds their keys too. With an argument
        `block_table` it takes query, key_pages (P, Hkv, page, E), value_pages, block_table
        (B, pages) and lengths (B,) instead. Other arguments as `attncourse.decode.decode`
        names them.
    level : {"quick", "full"}
        How much is tried.
    features : iterable of str, optional
        What it can do: "lengths", "several", "gqa", "scale", "window", "softcap", "alibi",
        "lse", "split", "paged", "half". By default an argument's name stands for its feature,
        and trial calls find out about shared heads and several queries at once.
    library : {"numpy", "torch"}, optional
        What it takes. By default NumPy, unless it only answers with tensors.
    only : str or iterable of str
        Run only cases whose name starts so, such as "ends" or "parts/every-split".
    strict : bool
        Whether a warning fails a case.

    Returns
    -------
    Report
        True when no case failed.

    Raises
    ------
    ValueError
        For an unknown level, feature, library, or a name in `only` that fits no case.

    Examples
    --------
    >>> def newest_value(query, key, value):
    ...     return value[:, :, -1:]
    >>> run_decode(newest_value, only="step/one-key").failed
    []
    >>> print(run_decode(newest_value, only="step/log-of-integers").failed[0].wanted)
    [[[[2.636364, 3.636364]]], [[[2.636364, 3.636364]]]]
    """
    subject = step_subject(_by_name(fn), features, library, strict)
    return report_on(subject, step_cases(), level, only)


def run_cache(
    make: Callable[..., Any] | str,
    level: str = "quick",
    features: Iterable[str] | None = None,
    *,
    library: str | None = None,
    only: str | Iterable[str] = "",
) -> Report:
    """Run a cache for keys and values, your own or the package's, through the suite.

    Parameters
    ----------
    make : class, callable or {"KVCache", "PagedKVCache"}
        Makes an empty cache. Sizes are passed by the names that it has of batch_size,
        num_kv_heads, head_dim, value_dim, capacity, num_pages, page_size and dtype. The cache
        has ``append(key, value)``, which returns all keys and values or leaves them in `key`
        and `value`. One with `block_table` is a pool of pages, like
        `attncourse.decode.PagedKVCache`.
    level, library, only
        As in `run_decode`.
    features : iterable of str, optional
        What it can do: "crop", "length", "capacity", "value_dim", "pool", "fork", "free",
        "count". By default what its methods and arguments are called.

    Returns
    -------
    Report
        True when no case failed.

    Raises
    ------
    ValueError, TypeError
        For an unknown level, feature, library or name, and for what makes no cache.

    Examples
    --------
    >>> report = run_cache("KVCache")
    >>> bool(report)
    True
    """
    subject = cache_subject(_by_name(make), features, library)
    theme = "pool" if subject.has("pool") else "cache"
    cases = tuple(case for case in cache_cases() if case.theme == theme)
    return report_on(subject, cases, level, only)


OURS = {"decode": "decode", "paged_decode": "decode", "KVCache": "cache", "PagedKVCache": "cache"}


def _by_name(fn: Any) -> Any:
    """Return the package's own function or class for its name."""
    if not isinstance(fn, str):
        return fn
    if fn not in OURS:
        raise ValueError(f"the package has no {fn!r} to decode with; it has {', '.join(OURS)}")
    return getattr(import_module("attncourse.decode"), fn)
