"""The suite for decoding: functions that attend to a cache, and the caches themselves.

`run_decode` takes a function of (query, key, value), or of (query, key_pages, value_pages,
block_table, lengths); `run_cache` takes a class that stores keys and values in one array or
in pages. Both are told from each other by the names of arguments and methods, and both give
the same report as `attncourse.conformance.run`.

Left out: attention over whole sequences (`attncourse.conformance.run`).
"""

from __future__ import annotations

from attncourse.conformance.decoding._run import cache_cases, run_cache, run_decode, step_cases

__all__ = ["cache_cases", "run_cache", "run_decode", "step_cases"]
