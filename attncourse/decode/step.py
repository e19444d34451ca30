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
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attncourse import _validate, grouped, masks, softmax, tiles
from attncourse._convert import widened, without_autocast
from attncourse.call import Call, checked_slopes, within_range

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
    options = (scale, window_size, softcap, alibi_slopes, return_lse, split)
    call = _call(query, key.shape[-2], *options)
    out, lse = _decode(query, read, value.shape[-1], ends, call, split)
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
    # What stands behind the last page of a sequence may be anything, and is read by nobody.
    table = block_table.long().clamp(0, max(len(key_pages) - 1, 0))

    def read(cols: slice) -> tuple[Tensor, Tensor]:
        pages = table[:, cols.start // page : -(-cols.stop // page)]  # (B, n)
        skip = cols.start % page
        wanted = slice(skip, skip + cols.stop - cols.start)
        found = (pool[pages].transpose(1, 2) for pool in (key_pages, value_pages))
        k, v = (block.flatten(2, 3)[:, :, wanted] for block in found)
        return k.contiguous(), v.contiguous()  # (B, Hkv, s, ·)

    seq_len_kv = int(ends.max()) if ends.numel() else 0
    options = (scale, window_size, softcap, alibi_slopes, return_lse, split)
    call = _call(query, seq_len_kv, *options)
    out, lse = _decode(query, read, value_pages.shape[-1], ends, call, split)
    return (out, lse) if return_lse else out


def _decode(
    query: Tensor,
    read: Callable[[slice], tuple[Tensor, Tensor]],
    value_width: int,
    ends: Tensor | None,
    call: Call,
    split: int,
) -> tuple[Tensor, Tensor | None]:
    """Attend to one part of the keys after the other, and merge."""
    with without_autocast(query):  # sums and lse are float32 at least, as `attention` has them
        return _decode_parts(query, read, value_width, ends, call, split)


def _decode_parts(
    query: Tensor,
    read: Callable[[slice], tuple[Tensor, Tensor]],
    value_width: int,
    ends: Tensor | None,
    call: Call,
    split: int,
) -> tuple[Tensor, Tensor | None]:
    (q,) = widened(query)
    q = q * call.scale
    shortest = stop = call.cols.stop
    if ends is not None:
        shortest, stop = (int(n) for n in ends.aminmax()) if ends.numel() else (0, 0)
    oldest = shortest - q.shape[-2]  # where the query stands that sees least
    first = max(0, oldest - call.window_size + 1) if call.window_size else 0
    parts = tiles.blocks(first, stop, split)
    out, lse = q.new_zeros(*q.shape[:-1], value_width), None  # (B, H, L, Ev)
    for number, cols in enumerate(parts):
        k, v = widened(*read(cols))  # (B, Hkv, s, ·)
        part = _part(call, q, cols, stop, oldest, ends)
        found = _attend(q, k, v, part, call.return_lse or len(parts) > 1)
        out, lse = softmax.merge(out, lse, *found) if number else found
    if call.return_lse and lse is None:
        lse = q.new_full(q.shape[:-1], -torch.inf)  # (B, H, L)
    return out.to(query.dtype), lse


def _part(call: Call, q: Tensor, cols: slice, stop: int, oldest: int, ends: Tensor | None) -> Call:
    """Return the call as a part of the keys meets it: a mask holds what position decides.

    There is none where all queries see all of these keys, and nothing depends on distance.
    """
    part = replace(call.at(call.rows, slice(0, cols.stop - cols.start)), alibi_slopes=None)
    too_old = cols.start < stop - (call.window_size or stop)
    if not too_old and cols.stop <= oldest + 1 and call.alibi_slopes is None:
        return part
    if ends is None:
        ends = torch.tensor([call.cols.stop], device=q.device)
    places = torch.arange(q.shape[-2], device=q.device)[:, None]  # (L, 1)
    own = ends[:, None, None, None] - q.shape[-2] + places  # (B, 1, L, 1)
    gap = own - torch.arange(cols.start, cols.stop, device=q.device)  # (B or 1, 1, L, s)
    mask = masks.visible(gap, call.window_size)
    if call.alibi_slopes is not None:
        mask = torch.where(mask, -call.alibi_slopes[..., None, None] * gap, -torch.inf)
    return replace(part, attn_mask=mask)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, call: Call, want_lse: bool
) -> tuple[Tensor, Tensor | None]:
    """Attend to one part of the keys."""
    k, v = call.cut(k, v)
    scores = grouped.product(q, k.mT)  # (B, H, L, s)
    scores = call.finish(scores)
    if not want_lse and call.attn_mask is None:
        return grouped.product(scores.softmax(-1), v), None
    nothing = scores.new_zeros(*scores.shape[:-1], 1)  # (B, H, L, 1)
    row_max, row_sum, weights, _ = softmax.fold_block(nothing - torch.inf, nothing, scores)
    return softmax.close(row_max, row_sum, grouped.product(weights, v))


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


def _call(
    query: Tensor,
    seq_len_kv: int,
    scale: float | None,
    window_size: int | None,
    softcap: float | None,
    alibi_slopes: Any,
    return_lse: bool,
    split: int,
) -> Call:
    """Check what is not an array, and bring the slopes to the query's device."""
    _validate.options(is_causal=True, scale=scale, window_size=window_size, softcap=softcap)
    if _validate.whole("split", split) < 1:
        raise ValueError(f"split must be at least 1 key, got {split}")
    if alibi_slopes is not None:
        alibi_slopes = checked_slopes(alibi_slopes, query)
    return Call(
        (0, query.shape[-2]),
        (0, seq_len_kv),
        query.shape[-1] ** -0.5 if scale is None else float(scale),
        window_size=None if window_size is None else int(window_size),
        softcap=None if softcap is None else within_range(softcap, query),
        alibi_slopes=alibi_slopes,
        return_lse=return_lse,
    )
