"""Attention of one or a few new queries against a long cache.

New here: with one query there are no query blocks to spread over the cores of a machine,
so the keys are split instead: each part gives (out, lse), and `softmax.merge` joins them.
The query heads that share a key head become rows of one matrix, so the cache is read once
for all of them. `paged_decode` finds its keys through block tables and is otherwise the
same code, so its results are the same bits.

Left out: dropout, and thrift with gradients; nobody trains with a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncourse import _validate, masks, softmax, tiles
from attncourse import scores as order

__all__ = ["SPLIT", "decode", "paged_decode"]

SPLIT = 8192


def decode(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    lengths: Any = None,
    scale: float | None = None,
    window_size: int | None = None,
    softcap: float | None = None,
    alibi_slopes: Any = None,
    return_lse: bool = False,
    split: int = SPLIT,
) -> Any:
    """Attend from the newest tokens to a cache, causal and pinned to its end.

    Parameters
    ----------
    query : Tensor, shape (B, H, L, E)
        The L newest tokens; their own keys are in the cache already.
    key, value : Tensor, shapes (B, Hkv, S, E), (B, Hkv, S, Ev)
        The cache; Hkv divides H.
    lengths : Tensor or sequence of int, shape (B,), optional
        How many of the S places each sequence has filled; all by default. What lies behind
        is never looked at.
    scale, window_size, softcap, alibi_slopes
        As in `attncourse.attention`.
    return_lse : bool, default False
        Also return the log-sum-exp.
    split : int, default 8192
        Keys in a part.

    Returns
    -------
    out : Tensor, shape (B, H, L, Ev)
        In the type of `query`; 0 where a query sees no key.
    lse : Tensor, shape (B, H, L)
        Only with `return_lse`, in nats, float32 or wider; -inf where a query sees no key.

    Raises
    ------
    ValueError
        When shapes disagree (both are named), or an option lies out of range.
    TypeError
        For anything but tensors of one floating-point type.

    Notes
    -----
    The same as `attention(..., is_causal=True, causal_align="bottom_right")`. Each call
    reads S·(E + Ev) numbers for every key head and multiplies each of them H / Hkv times:
    the reading is what takes time. **Source:** Dao et al. 2023, "Flash-Decoding".
    """
    _check_tensors(query, key, value)
    _validate.dtypes(query, key, value)
    _validate.shapes(query, key, value, True)

    def read(cols: slice) -> tuple[Tensor, Tensor]:
        return key[:, :, cols], value[:, :, cols]

    ends = None if lengths is None else _ends(lengths, query, key.shape[-2])
    options = _check_options(query, scale, window_size, softcap, alibi_slopes, split)
    sizes = key.shape[-2], value.shape[-1]
    out, lse = _decode(query, read, sizes, ends, options, return_lse)
    return (out, lse) if return_lse else out


def paged_decode(
    query: Tensor,
    key_pages: Tensor,
    value_pages: Tensor,
    block_table: Tensor,
    lengths: Any,
    *,
    scale: float | None = None,
    window_size: int | None = None,
    softcap: float | None = None,
    alibi_slopes: Any = None,
    return_lse: bool = False,
    split: int = SPLIT,
) -> Any:
    """Attend from the newest tokens to a cache that lies scattered over pages.

    Parameters
    ----------
    query : Tensor, shape (B, H, L, E)
        The L newest tokens of each sequence.
    key_pages, value_pages : Tensor, shapes (P, Hkv, page, E), (P, Hkv, page, Ev)
        The pool of pages that all sequences draw from.
    block_table : Tensor of int, shape (B, pages)
        For each sequence the numbers of its pages, in order; -1 behind the last.
    lengths : Tensor or sequence of int, shape (B,)
        Tokens of each sequence.
    scale, window_size, softcap, alibi_slopes, return_lse, split
        As in `decode`.

    Returns
    -------
    out, lse
        Bit for bit those of `decode` on a contiguous copy of the cache.

    Raises
    ------
    ValueError
        When shapes disagree, or a page that is needed does not exist.
    TypeError
        For anything but tensors of one floating-point type, or a table that holds no integers.

    Notes
    -----
    Only the pages of one part are brought together at a time.
    **Source:** Kwon et al. 2023, section 4.1 (arXiv:2309.06180).
    """
    _check_tensors(query, key_pages, value_pages, block_table)
    _validate.dtypes(query, key_pages, value_pages)
    page = key_pages.shape[-2]
    ends = _ends(lengths, query, block_table.shape[-1] * page)
    _validate.pages(query, key_pages, value_pages, block_table, ends)
    table = block_table.clamp(min=0)

    def read(cols: slice) -> tuple[Tensor, Tensor]:
        pages = table[:, cols.start // page : -(-cols.stop // page)]  # (B, n)
        skip = cols.start % page
        wanted = slice(skip, skip + cols.stop - cols.start)
        found = (pool[pages].transpose(1, 2) for pool in (key_pages, value_pages))
        k, v = (block.flatten(2, 3)[:, :, wanted] for block in found)
        return k.contiguous(), v.contiguous()  # (B, Hkv, s, ·)

    seq_len_kv = int(ends.max()) if ends.numel() else 0
    options = _check_options(query, scale, window_size, softcap, alibi_slopes, split)
    sizes = seq_len_kv, value_pages.shape[-1]
    out, lse = _decode(query, read, sizes, ends, options, return_lse)
    return (out, lse) if return_lse else out


class _Options(NamedTuple):
    """What a call fixes beside its arrays."""

    scale: float
    window_size: int | None
    softcap: float | None
    slopes: Tensor | None
    split: int


def _decode(
    query: Tensor,
    read: Callable[[slice], tuple[Tensor, Tensor]],
    sizes: tuple[int, int],
    ends: Tensor | None,
    options: _Options,
    want_lse: bool,
) -> tuple[Tensor, Tensor | None]:
    """Attend to one part of the keys after the other, and merge."""
    wide = torch.promote_types(query.dtype, torch.float32)
    q = query.to(wide) * options.scale
    stop, value_width = sizes
    shortest = stop
    if ends is not None:
        shortest, stop = (int(n) for n in ends.aminmax()) if ends.numel() else (0, 0)
    oldest = shortest - q.shape[-2]  # where the query stands that sees least
    window_size = options.window_size or stop + 1
    parts = tiles.blocks(max(0, oldest - window_size + 1), stop, options.split)
    out, lse = q.new_zeros(*q.shape[:-1], value_width), None  # (B, H, L, Ev)
    for number, cols in enumerate(parts):
        k, v = (block.to(wide) for block in read(cols))  # (B, Hkv, s, ·)
        all_see_all = stop - window_size <= cols.start and cols.stop <= oldest + 1
        plain = all_see_all and options.slopes is None
        gap = None if plain else _gap(q, cols, sizes[0] if ends is None else ends)
        part = _attend(q, k, v, gap, options, want_lse or len(parts) > 1)
        out, lse = softmax.merge(out, lse, *part) if number else part
    if want_lse and lse is None:
        lse = q.new_full(q.shape[:-1], -torch.inf)  # (B, H, L)
    return out.to(query.dtype), lse


def _gap(q: Tensor, cols: slice, ends: Tensor | int) -> Tensor:
    """Return how far each key stands behind each query, shape (B or 1, 1, L, s)."""
    if isinstance(ends, int):
        ends = torch.tensor([ends], device=q.device)
    places = torch.arange(q.shape[-2], device=q.device)[:, None]  # (L, 1)
    own = ends[:, None, None, None] - q.shape[-2] + places  # (B, 1, L, 1)
    return own - torch.arange(cols.start, cols.stop, device=q.device)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, gap: Tensor | None, options: _Options, want_lse: bool
) -> tuple[Tensor, Tensor | None]:
    """Attend to one part of the keys, which stand `gap` behind the queries; None: all are seen."""
    rows, cols = slice(0, q.shape[-2]), slice(0, k.shape[-2])
    mask = None
    if gap is not None:
        mask = masks.visible(gap, options.window_size)  # (B, 1, L, s)
        if options.slopes is not None:
            mask = torch.where(mask, -options.slopes[..., None, None] * gap, -torch.inf)
    k, v = order.cut_seen(k, v, rows, cols, attn_mask=mask)
    scores = tiles.by_group(q, k.mT)  # (B, H, L, s)
    scores, _ = order.finish(scores, rows, cols, attn_mask=mask, softcap=options.softcap)
    if not want_lse and mask is None:
        return tiles.by_group(scores.softmax(-1), v), None
    nothing = scores.new_zeros(*scores.shape[:-1], 1)  # (B, H, L, 1)
    row_max, row_sum, weights, _ = softmax.fold_block(nothing - torch.inf, nothing, scores)
    blind = row_sum == 0
    row_sum = row_sum.masked_fill(blind, 1.0)
    return tiles.by_group(weights, v) / row_sum, (row_sum.log() + row_max).squeeze(-1)


def _check_tensors(*tensors: Any) -> None:
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"wanted torch tensors, got {type(tensor).__name__}")
        if tensors[0].ndim != 4:
            shape = tuple(tensors[0].shape)
            raise ValueError(f"query must have the axes (B, H, L, E), got shape {shape}")


def _ends(lengths: Any, query: Tensor, seq_len_kv: int) -> Tensor:
    """Return one checked length a sequence, where the query lives."""
    ends = torch.as_tensor(lengths, device=query.device)
    ends = ends if ends.numel() else ends.long()  # an empty list says nothing of its type
    _validate.lengths(ends, query.shape[0], seq_len_kv)
    return ends.long()


def _check_options(
    query: Tensor,
    scale: float | None,
    window_size: int | None,
    softcap: float | None,
    alibi_slopes: Any,
    split: int,
) -> _Options:
    """Check what is not an array, and bring the slopes to the query's device."""
    _validate.options(is_causal=True, scale=scale, window_size=window_size, softcap=softcap)
    if _validate.whole("split", split) < 1:
        raise ValueError(f"split must be at least 1 key, got {split}")
    if alibi_slopes is not None:
        wide = torch.promote_types(query.dtype, torch.float32)
        alibi_slopes = torch.as_tensor(alibi_slopes, dtype=wide, device=query.device)
        _validate.slopes(alibi_slopes, tuple(query.shape))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    return _Options(scale, window_size, softcap, alibi_slopes, split)
