"""Right decode functions and caches, each written in another way than the package's.

The suites must pass all of them: they hold to what is answered and stored, not to how.
"""

import numpy as np
import torch


def by_sdpa(query, key, value, enable_gqa=False):
    """Ask PyTorch; one new query sees the whole cache, so there is nothing to hide."""
    wide = torch.promote_types(query.dtype, torch.float32)
    if not key.shape[2]:
        return query.new_zeros(*query.shape[:-1], value.shape[-1])
    arrays = (array.to(wide) for array in (query, key, value))
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return sdpa(*arrays, enable_gqa=enable_gqa).to(query.dtype)


def sequence_by_sequence(query, key, value, lengths=None, scale=None):
    """Cut each sequence to its length and answer it alone; one query, no shared heads."""
    wide = np.promote_types(query.dtype, np.float32)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    out = np.zeros((*query.shape[:-1], value.shape[-1]), query.dtype)
    for b in range(len(query)):
        stop = key.shape[2] if lengths is None else int(lengths[b])
        k, v = (x[b, :, :stop].astype(wide) for x in (key, value))
        scores = scale * query[b].astype(wide) @ k.swapaxes(-1, -2)
        if stop:
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            out[b] = weights / weights.sum(-1, keepdims=True) @ v
    return out


def key_by_key(query, key, value, window_size=None, return_lse=False):
    """Move a finished answer towards each new value; shared heads by their numbers."""
    wide = np.promote_types(query.dtype, np.float32)
    serve = np.arange(query.shape[1]) // max(query.shape[1] // max(key.shape[1], 1), 1)
    q, k, v = query.astype(wide), key[:, serve].astype(wide), value[:, serve].astype(wide)
    num_queries, num_keys = q.shape[2], k.shape[2]
    own = num_keys - num_queries + np.arange(num_queries)
    out = np.zeros((*q.shape[:-1], v.shape[-1]), wide)
    lse = np.full(q.shape[:-1], -np.inf, wide)
    for j in range(num_keys):
        seen = (own >= j) & (own - j < (window_size or np.inf))
        score = np.where(seen, (q * k[:, :, j : j + 1]).sum(-1) * q.shape[-1] ** -0.5, -np.inf)
        grown = np.logaddexp(lse, score)
        share = np.exp(score - np.where(grown == -np.inf, 0, grown))[..., None]
        out, lse = out + share * (v[:, :, j : j + 1] - out), grown
    out = out.astype(query.dtype)
    return (out, lse) if return_lse else out


def whole_pages(query, key_pages, value_pages, block_table, lengths):
    """Gather whole pages with torch, and hide what lies behind the lengths."""
    wide = torch.promote_types(query.dtype, torch.float32)
    table = block_table.clamp(min=0).long()
    k, v = (pool[table].transpose(1, 2).flatten(2, 3).to(wide) for pool in (key_pages, value_pages))
    filled = (torch.arange(k.shape[2]) < lengths[:, None])[:, None, :, None]
    k, v = (array.masked_fill(~filled, 0.0) for array in (k, v))
    hidden = ~filled.transpose(-1, -2)
    scores = (query.to(wide) @ k.mT * query.shape[-1] ** -0.5).masked_fill(hidden, -torch.inf)
    weights = scores.softmax(-1).masked_fill((lengths == 0)[:, None, None, None], 0.0)
    return (weights @ v).to(query.dtype)


class Concatenated:
    """Glue new tokens to the old ones; made without any sizes."""

    def __init__(self):
        self.key = self.value = None

    def append(self, key, value):
        if self.key is None:
            self.key, self.value = key.clone(), value.clone()
        else:
            self.key = torch.cat([self.key, key], 2)
            self.value = torch.cat([self.value, value], 2)


class TokenList:
    """Keep a list with one array a token, and stack it on every append."""

    def __init__(self):
        self.tokens = []

    def __len__(self):
        return len(self.tokens)

    def append(self, key, value):
        if self.tokens and (key[:, :, :0].shape, value[:, :, :0].shape) != self.shapes:
            raise ValueError("another shape")
        self.shapes = key[:, :, :0].shape, value[:, :, :0].shape
        self.tokens += [(key[:, :, i].copy(), value[:, :, i].copy()) for i in range(key.shape[2])]
        if not self.tokens:
            return key[:, :, :0], value[:, :, :0]
        return tuple(np.stack(side, 2) for side in zip(*self.tokens, strict=True))

    def crop(self, length):
        del self.tokens[length:]


class TokensFirst:
    """Store (n, B, H, E) in float32, and show it turned."""

    def __init__(self, batch_size, num_kv_heads, head_dim):
        self.arrays = [torch.zeros(600, batch_size, num_kv_heads, head_dim) for _ in range(2)]
        self.filled = 0

    def append(self, key, value):
        stop = self.filled + key.shape[2]
        for array, new in zip(self.arrays, (key, value), strict=True):
            if new.shape[:2] != array.shape[1:3] or new.shape[3] != array.shape[3]:
                raise ValueError("another shape")
            array[self.filled : stop] = new.permute(2, 0, 1, 3)
        self.filled = stop
        return tuple(array[:stop].permute(1, 2, 0, 3) for array in self.arrays)


class EagerPool:
    """Take the lowest free page, reserve one on `add`, and copy everything on `fork`."""

    def __init__(self, num_pages, page_size, num_kv_heads, head_dim):
        shape = (num_pages, num_kv_heads, page_size, head_dim)
        self.key_pages, self.value_pages = torch.zeros(shape), torch.zeros(shape)
        self.free_list, self.tables, self.lengths = list(range(num_pages)), {}, {}
        self.page_size, self.made = page_size, 0

    def add(self):
        self.made += 1
        name = f"sequence {self.made}"
        self.tables[name], self.lengths[name] = [], 0
        return name

    def append(self, sequence, key, value):
        table, start = self.tables[sequence], self.lengths[sequence]
        stop = start + key.shape[1]
        while len(table) * self.page_size < stop:
            table.append(self.free_list.pop(0))
        for j in range(start, stop):
            for pool, new in ((self.key_pages, key), (self.value_pages, value)):
                pool[table[j // self.page_size], :, j % self.page_size] = new[:, j - start]
        self.lengths[sequence] = stop

    def fork(self, sequence):
        twin = self.add()
        for page in self.tables[sequence]:
            own = self.free_list.pop(0)
            self.key_pages[own], self.value_pages[own] = (
                self.key_pages[page],
                self.value_pages[page],
            )
            self.tables[twin].append(own)
        self.lengths[twin] = self.lengths[sequence]
        return twin

    def free(self, sequence):
        self.free_list = sorted(self.free_list + self.tables.pop(sequence))
        del self.lengths[sequence]

    def block_table(self, sequences):
        width = 1 + max(len(self.tables[name]) for name in sequences)
        rows = [self.tables[name] + [-1] * (width - len(self.tables[name])) for name in sequences]
        return torch.tensor(rows), torch.tensor([self.lengths[name] for name in sequences])


STEPS = (by_sdpa, sequence_by_sequence, key_by_key, whole_pages)
CACHES = (Concatenated, TokenList, TokensFirst, EagerPool)
