"""A correct decode in NumPy, with a cache in one piece or in pages, to be mutated."""

import numpy as np


def decode(
    query,
    key,
    value,
    *,
    lengths=None,
    scale=None,
    window_size=None,
    softcap=None,
    alibi_slopes=None,
    return_lse=False,
    split=8192,
):
    kind, wide = query.dtype, np.promote_types(query.dtype, np.float32)
    q = query.astype(wide)
    ends = np.full(len(q), key.shape[2]) if lengths is None else lengths
    num_queries, width = q.shape[-2:]
    groups = q.shape[1] // max(key.shape[1], 1)
    scale = width**-0.5 if scale is None else scale
    out = np.zeros((*q.shape[:-1], value.shape[-1]), wide)
    lse = np.full(q.shape[:-1], -np.inf, wide)
    for start in range(0, key.shape[2], split):
        places = np.arange(start, min(start + split, key.shape[2]))
        k, v = (np.repeat(x[:, :, places].astype(wide), groups, 1) for x in (key, value))
        own = ends[:, None, None, None] - num_queries + np.arange(num_queries)[:, None]
        gap = own - places
        seen = gap >= 0
        if window_size is not None:
            seen &= gap < window_size
        behind = (places >= ends[:, None])[:, None, :, None]
        k, v = np.where(behind, 0, k), np.where(behind, 0, v)
        scores = scale * (q @ k.swapaxes(-1, -2))
        if alibi_slopes is not None:
            scores = scores - alibi_slopes[..., None, None] * gap
        if softcap is not None:
            scores = softcap * np.tanh(scores / softcap)
        scores = np.where(seen, scores, -np.inf)
        peak = scores.max(-1)
        safe = np.where(peak == -np.inf, 0, peak)
        weights = np.exp(scores - safe[..., None])
        total = weights.sum(-1)
        part = weights @ v / np.where(total == 0, 1, total)[..., None]
        with np.errstate(divide="ignore"):
            part_lse = np.log(total) + safe
        merged = np.logaddexp(lse, part_lse)
        centre = np.where(merged == -np.inf, 0, merged)
        out = out * np.exp(lse - centre)[..., None] + part * np.exp(part_lse - centre)[..., None]
        lse = merged
    out = out.astype(kind)
    return (out, lse) if return_lse else out


def paged_decode(query, key_pages, value_pages, block_table, lengths, **options):
    page = key_pages.shape[2]
    stop = int(lengths.max(initial=0))
    key, value = (
        np.zeros((len(query), pool.shape[1], stop, pool.shape[3]), pool.dtype)
        for pool in (key_pages, value_pages)
    )
    for b, end in enumerate(lengths):
        for j in range(int(end)):
            number, place = block_table[b, j // page], j % page
            key[b, :, j] = key_pages[number, :, place]
            value[b, :, j] = value_pages[number, :, place]
    return decode(query, key, value, lengths=lengths, **options)
