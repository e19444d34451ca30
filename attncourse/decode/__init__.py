"""Attention of a few new queries against a cache, and the two caches: one array, or pages."""

from attncourse.decode.kv_cache import KVCache
from attncourse.decode.paged_cache import PagedKVCache
from attncourse.decode.step import SPLIT, decode, paged_decode

__all__ = ["SPLIT", "KVCache", "PagedKVCache", "decode", "paged_decode"]
