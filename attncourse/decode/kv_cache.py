"""Where a model keeps the keys and values of the tokens it has read.

New here: a token's key and value never change, so they are written once and read at every
later step. `KVCache` appends to one long array; `PagedKVCache` (`attncourse.decode.paged_cache`)
spreads many sequences over the pages of one pool.

Left out: attention itself (`attncourse.decode`), and dropping old tokens under a window.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attncourse import _validate
from attncourse.decode.paged_cache import PagedKVCache

__all__ = ["KVCache", "PagedKVCache"]


class KVCache:
    """Keys and values of a batch of equally long sequences, in one array each.

    Parameters
    ----------
    batch_size, num_kv_heads, head_dim : int
        B, Hkv and E.
    value_dim : int, optional
        Ev; E by default.
    capacity : int, default 64
        Tokens to make room for at first; the room doubles when it is full, so that n
        appended tokens are copied fewer than 2·n times in all.
    dtype, device
        Of the arrays, as in torch.

    Raises
    ------
    ValueError, TypeError
        For a size that is negative, or no whole number.
    """

    def __init__(
        self,
        batch_size: int,
        num_kv_heads: int,
        head_dim: int,
        value_dim: int | None = None,
        *,
        capacity: int = 64,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        value_dim = head_dim if value_dim is None else value_dim
        sizes = (batch_size, num_kv_heads, head_dim, value_dim, capacity)
        names = ("batch_size", "num_kv_heads", "head_dim", "value_dim", "capacity")
        for name, size in zip(names, sizes, strict=True):
            if _validate.whole(name, size) < 0:
                raise ValueError(f"{name} must not be negative, got {size}")
        shape = (batch_size, num_kv_heads, max(capacity, 1))
        self._keys = torch.zeros(*shape, head_dim, dtype=dtype, device=device)
        self._values = torch.zeros(*shape, value_dim, dtype=dtype, device=device)
        self._filled = 0

    def __len__(self) -> int:
        """Return the number of tokens of each sequence."""
        return self._filled

    @property
    def key(self) -> Tensor:
        """A view of the keys so far, shape (B, Hkv, len, E)."""
        return self._keys.narrow(2, 0, self._filled)

    @property
    def value(self) -> Tensor:
        """A view of the values so far, shape (B, Hkv, len, Ev)."""
        return self._values.narrow(2, 0, self._filled)

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write the keys and values of new tokens behind the old ones.

        Parameters
        ----------
        key, value : Tensor, shapes (B, Hkv, n, E), (B, Hkv, n, Ev)
            The new tokens; gradients are cut. In the cache's type, or under autocast in one that
            it holds exactly.

        Returns
        -------
        key, value : Tensor
            All tokens, old and new, as views in the cache's type: valid until the next `append`.

        Raises
        ------
        ValueError
            When the shapes do not fit; the cache is unchanged then.
        """
        _validate.new_tokens(key, value, self._keys, self._values)
        stop = self._filled + key.shape[2]
        if stop > self._keys.shape[2]:
            room = max(stop, 2 * self._keys.shape[2])
            self._keys = _with_room(self.key, room)
            self._values = _with_room(self.value, room)
        for array, new in ((self._keys, key), (self._values, value)):
            array.narrow(2, self._filled, new.shape[2]).copy_(new.detach())
        self._filled = stop
        return self.key, self.value

    def crop(self, length: int) -> None:
        """Forget every token from `length` on, for instance after a rejected guess.

        Raises
        ------
        ValueError, TypeError
            When there are fewer than `length` tokens, or it is no whole number.
        """
        length = _validate.whole("length", length)
        if not 0 <= length <= self._filled:
            raise ValueError(f"length must lie in 0 … {self._filled}, got {length}")
        self._filled = length


def _with_room(array: Tensor, room: int) -> Tensor:
    """Copy (B, Hkv, n, E) into a new array with place for `room` tokens."""
    roomy = array.new_zeros(*array.shape[:2], room, array.shape[3])
    roomy[:, :, : array.shape[2]] = array
    return roomy
