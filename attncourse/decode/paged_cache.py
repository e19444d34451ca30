"""Many sequences in one pool: keys and values on pages, found through block tables.

New here: a block table says which page holds which tokens of a sequence, as an operating
system maps memory. No place is reserved for text that is never written, and sequences
that begin alike share the pages of their beginning.

Left out: attention itself (`attncourse.decode.paged_decode`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attncourse import _validate

__all__ = ["PagedKVCache"]


class PagedKVCache:
    """Keys and values of many sequences of any length, in pages of one pool.

    Parameters
    ----------
    num_pages, page_size : int
        Pages in the pool, and tokens in a page.
    num_kv_heads, head_dim : int
        Hkv and E.
    value_dim : int, optional
        Ev; E by default.
    dtype, device
        Of the pool, as in torch.

    Attributes
    ----------
    key_pages, value_pages : Tensor, shapes (P, Hkv, page, E), (P, Hkv, page, Ev)
        The pool, for `attncourse.decode.paged_decode`.

    Notes
    -----
    **Source:** Kwon et al. 2023, sections 4.1 to 4.4 (arXiv:2309.06180).
    """

    def __init__(
        self,
        num_pages: int,
        page_size: int,
        num_kv_heads: int,
        head_dim: int,
        value_dim: int | None = None,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        if num_pages < 1 or page_size < 1:
            raise ValueError(f"wanted at least 1 page of 1 token, got {num_pages} of {page_size}")
        shape = (num_pages, num_kv_heads, page_size)
        value_dim = head_dim if value_dim is None else value_dim
        self.key_pages = torch.zeros(*shape, head_dim, dtype=dtype, device=device)
        self.value_pages = torch.zeros(*shape, value_dim, dtype=dtype, device=device)
        self.page_size = page_size
        self._free = list(reversed(range(num_pages)))
        self._users = [0] * num_pages
        self._tables: dict[int, list[int]] = {}
        self._lengths: dict[int, int] = {}
        self._next = 0

    @property
    def free_pages(self) -> int:
        """How many pages nobody uses."""
        return len(self._free)

    def add(self) -> int:
        """Start an empty sequence, and return its number."""
        number, self._next = self._next, self._next + 1
        self._tables[number], self._lengths[number] = [], 0
        return number

    def fork(self, sequence: int) -> int:
        """Start a sequence that begins like another one, without copying anything.

        Returns
        -------
        int
            The new sequence's number. All pages are shared; whoever first writes into a
            page that is shared and not full takes a copy of it (see `append`).
        """
        table, length = self._table(sequence), self._lengths[sequence]
        number = self.add()
        self._tables[number], self._lengths[number] = list(table), length
        for page in table:
            self._users[page] += 1
        return number

    def free(self, sequence: int) -> None:
        """End a sequence; pages that nobody else uses return to the pool."""
        for page in self._table(sequence):
            self._release(page)
        del self._tables[sequence], self._lengths[sequence]

    def append(self, sequence: int, key: Tensor, value: Tensor) -> None:
        """Write the keys and values of new tokens behind a sequence.

        Parameters
        ----------
        sequence : int
            A number from `add` or `fork`.
        key, value : Tensor, shapes (Hkv, n, E), (Hkv, n, Ev)
            The new tokens; gradients are cut. In the pool's type, or under autocast in one that it
            holds exactly.

        Raises
        ------
        MemoryError
            When the pool has too few free pages; nothing is written then.
        ValueError
            When the shapes do not fit, or there is no such sequence.
        """
        table, start = self._table(sequence), self._lengths[sequence]
        _validate.new_tokens(key[None], value[None], self.key_pages[:1], self.value_pages[:1])
        stop, used = start + key.shape[1], start % self.page_size
        copies = used > 0 and stop > start and self._users[table[-1]] > 1
        wanted = -(-stop // self.page_size) - len(table) + copies
        if wanted > len(self._free):
            raise MemoryError(
                f"wanted {wanted} free pages of the pool, there are {self.free_pages}"
            )
        if copies:
            shared = table[-1]
            table[-1] = self._take()
            self.key_pages[table[-1]] = self.key_pages[shared]
            self.value_pages[table[-1]] = self.value_pages[shared]
            self._release(shared)
        while len(table) * self.page_size < stop:
            table.append(self._take())
        places = torch.arange(start, stop)
        pages = torch.tensor(table, dtype=torch.long)[places // self.page_size]  # (n,)
        for pool, new in ((self.key_pages, key), (self.value_pages, value)):
            pool[pages, :, places % self.page_size] = new.detach().transpose(0, 1).to(pool.dtype)
        self._lengths[sequence] = stop

    def block_table(self, sequences: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Tell where a batch of sequences lies, for `attncourse.decode.paged_decode`.

        Returns
        -------
        block_table : Tensor of int, shape (B, pages)
            The page numbers of each sequence in order; -1 behind the last.
        lengths : Tensor of int, shape (B,)
            Tokens of each sequence.
        """
        tables = [self._table(number) for number in sequences]
        device, width = self.key_pages.device, max(map(len, tables), default=0)
        rows = [table + [-1] * (width - len(table)) for table in tables]
        block_table = torch.tensor(rows, dtype=torch.long, device=device).reshape(len(rows), width)
        lengths = torch.tensor([self._lengths[number] for number in sequences], device=device)
        return block_table, lengths.long()

    def contiguous(self, sequence: int) -> tuple[Tensor, Tensor]:
        """Copy a sequence out of its pages, as (Hkv, len, E) and (Hkv, len, Ev)."""
        table, length = self._table(sequence), self._lengths[sequence]
        pools = (self.key_pages, self.value_pages)
        key, value = (pool[table].transpose(0, 1).flatten(1, 2)[:, :length] for pool in pools)
        return key.contiguous(), value.contiguous()

    def _table(self, sequence: int) -> list[int]:
        if sequence not in self._tables:
            raise ValueError(f"no sequence {sequence}; there are {sorted(self._tables)}")
        return self._tables[sequence]

    def _take(self) -> int:
        page = self._free.pop()
        self._users[page] = 1
        return page

    def _release(self, page: int) -> None:
        self._users[page] -= 1
        if self._users[page] == 0:
            self._free.append(page)
