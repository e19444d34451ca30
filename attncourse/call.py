"""One call of attention: everything that was asked for beside the three arrays.

New here: `Call.of` checks a call once, and the same frozen object goes through every rung, the
cache, the ring and the kernels' launcher. Its methods are what happens between Q·Kᵀ and the
product with V, on all scores or, after `at`, on one block of them, in one fixed order:

scale -> ALiBi and float mask added -> softcap -> hidden keys (-inf) -> softmax -> dropout.

Left out: the products and the softmax, which make the difference between rungs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attncourse import _convert, _validate, dropout, grouped, masks, tiles
from attncourse._validate import is_bool, library_of
from attncourse.features import features_of

__all__ = ["Call"]


@dataclass(frozen=True, eq=False)
class Call:
    """A checked call, or the part of it that concerns one block of scores.

    Attributes
    ----------
    query_range, key_range : pair of int
        Which queries and keys the block holds, the first and the one behind the last; all of them
        at first. `rows` and `cols` are the same as slices, which torch.compile would fix.
    scale : float
        Multiplies the dot products.
    attn_mask, dropout_p, is_causal, window_size, softcap, alibi_slopes, dropout_seed, return_lse
        As in `attncourse.attention`.
    shift : int
        Query i stands at key position i + shift (see `attncourse.masks.offset`).
    causal_align : str
        "bottom_right" only where that can change something.
    enable_gqa : bool
        Whether key heads are shared.
    first_head : int
        Which head the first of the block is.
    has_batch, has_grad : bool
        Whether there are axes before (L, E), and whether somebody will ask for gradients.
    """

    query_range: tuple[int, int]
    key_range: tuple[int, int]
    scale: float
    attn_mask: Any = None
    dropout_p: float = 0.0
    is_causal: bool = False
    shift: int = 0
    window_size: int | None = None
    softcap: float | None = None
    alibi_slopes: Any = None
    dropout_seed: int | None = None
    return_lse: bool = False
    causal_align: str = "top_left"
    enable_gqa: bool = False
    first_head: int = 0
    has_batch: bool = False
    has_grad: bool = False

    @classmethod
    def of(
        cls,
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
        *,
        causal_align: str = "top_left",
        window_size: int | None = None,
        softcap: float | None = None,
        alibi_slopes: Any = None,
        dropout_seed: int | None = None,
        return_lse: bool = False,
    ) -> Call:
        """Check every argument of `attncourse.attention`, which documents them and their errors."""
        _validate.arrays(query, key, value, enable_gqa)
        _validate.options(
            dropout_p, is_causal, scale, causal_align, window_size, softcap, dropout_seed
        )
        shape, seq_len_kv = query.shape, key.shape[-2]
        seq_len_q = shape[-2]
        if attn_mask is not None:
            attn_mask = _convert.alike(attn_mask, query)
            _validate.mask(attn_mask, (*shape[:-1], seq_len_kv))
        if alibi_slopes is not None:
            alibi_slopes = checked_slopes(alibi_slopes, query)
        if window_size is not None:  # none need be longer than the sequences
            window_size = min(int(window_size), max(seq_len_q + seq_len_kv, 1))
        # A branch, because torch.compile knows no other way from symbols to True or False.
        has_batch = len(shape) > 2
        is_grouped = True if has_batch and shape[-3] != key.shape[-3] else False
        pinned = is_causal or alibi_slopes is not None
        return cls(
            (0, seq_len_q),
            (0, seq_len_kv),
            shape[-1] ** -0.5 if scale is None else float(scale),
            attn_mask,
            float(dropout_p),
            bool(is_causal),
            masks.offset(seq_len_q, seq_len_kv, causal_align),
            window_size,
            None if softcap is None else within_range(softcap, query),
            alibi_slopes,
            int(dropout_seed) if dropout_seed is not None and dropout_p else None,
            bool(return_lse),
            causal_align if pinned else "top_left",
            is_grouped,
            0,
            has_batch,
            _wants_grad(query, key, value, attn_mask, alibi_slopes),
        )

    @property
    def needs(self) -> set[str]:
        """The features that a rung must have for this call, keys of `features.FEATURES`."""
        needs = features_of(vars(self))
        if self.has_batch:
            needs.add("batch")
        if self.has_grad:
            needs.add("grad")
        return needs

    @property
    def rows(self) -> slice:
        """The queries of the block."""
        return slice(*self.query_range)

    @property
    def cols(self) -> slice:
        """The keys of the block."""
        return slice(*self.key_range)

    # ---- a block of the call

    def at(self, rows: slice, cols: slice) -> Call:
        """Return the call as one block of queries and keys meets it."""
        queries, keys = (rows.start, rows.stop), (cols.start, cols.stop)
        return replace(self, query_range=queries, key_range=keys)

    def span(self, rows: slice) -> slice:
        """Tell which keys position lets some query of a block see."""
        if not self.is_causal:
            return self.cols
        return tiles.span(rows, self.cols.stop, self.shift, self.window_size)

    def key_blocks(self, rows: slice, block_kv: int) -> Iterator[Call]:
        """Cut the keys that a block of queries may see into blocks of the call, in order."""
        cols = self.span(rows)
        for block in tiles.blocks(cols.start, cols.stop, block_kv):
            yield self.at(rows, block)

    def of_heads(self, heads: slice) -> Call:
        """Return the call as some of the query heads meet it."""
        mask, slopes = self.attn_mask, self.alibi_slopes
        if mask is not None and mask.ndim > 2 and mask.shape[-3] > 1:
            mask = mask[..., heads, :, :]
        if slopes is not None:
            slopes = slopes[..., heads]
        return replace(self, attn_mask=mask, alibi_slopes=slopes, first_head=heads.start)

    # ---- who sees whom

    def sees(self, i: int, j: int) -> bool:
        """Tell whether query i may see key j; for a call without axes before (L, E)."""
        gap = i + self.shift - j  # negative in the future of query i
        if self.is_causal and not 0 <= gap < (self.window_size or gap + 1):
            return False
        if self.attn_mask is None:
            return True
        return bool(np.broadcast_to(self.attn_mask, (self.rows.stop, self.cols.stop))[i, j])

    def seen(self, like: Any) -> Any:
        """Combine everything that hides keys of the block by AND.

        Parameters
        ----------
        like : ndarray or Tensor
            Any array of the right library and device.

        Returns
        -------
        ndarray or Tensor of bool, broadcastable to (..., l, s), or None
            True = attend; None when nothing is hidden.
        """
        seen = None
        if self.is_causal and self._edges():
            seen = masks.visible(self.gap(like), self.window_size)  # (l, s)
        if self.attn_mask is not None:
            given = tiles.cut_mask(self.attn_mask, self.rows, self.cols)
            given = given if is_bool(given) else given != -np.inf
            seen = given if seen is None else seen & given
        return seen

    def blind(self, like: Any) -> Any:
        """Tell which queries of the block see none of its keys, (..., l, 1); None for no query."""
        if self.attn_mask is not None:
            return ~self.seen(like).any(-1)[..., None]
        clear = self._clear()
        if not self.is_causal or clear.start < clear.stop:
            return None
        own = tiles.gap(like, self.rows, slice(0, 1), self.shift)  # (l, 1), among the keys
        oldest = 0 if self.window_size is None else own - self.window_size + 1
        nothing = self.cols.start >= self.cols.stop
        return (own < self.cols.start) | (oldest >= self.cols.stop) | nothing

    def gap(self, like: Any) -> Any:
        """Return the position of each query minus that of each key, shape (l, s)."""
        return tiles.gap(like, self.rows, self.cols, self.shift)

    # ---- what is done to queries, keys and values, scores, weights

    def cut(self, k: Any, v: Any) -> tuple[Any, Any]:
        """Cut the block's keys and values out, with zeros where none of its queries may look.

        Parameters
        ----------
        k, v : ndarray or Tensor, shapes (..., Hkv, S, E), (..., Hkv, S, Ev)
            All keys and values.

        Returns
        -------
        k, v : ndarray or Tensor, shapes (..., Hkv, s, E), (..., Hkv, s, Ev)
            Views where position alone hides and each key is seen, else cleaned copies.
        """
        k, v = k[..., self.cols, :], v[..., self.cols, :]
        if self.attn_mask is None and self._all_used():
            return k, v
        seen = self.seen(k)
        return (k, v) if seen is None else tuple(grouped.without_unseen(x, seen) for x in (k, v))

    def finish(self, scores: Any) -> Any:
        """Take the scaled scores of the block through ALiBi, masks and softcap.

        Parameters
        ----------
        scores : ndarray or Tensor, shape (..., l, s)
            ``scale * q @ k.T``. Its memory is used up.

        Returns
        -------
        ndarray or Tensor, shape (..., l, s)
            Ready for softmax: -inf where hidden.

        Notes
        -----
        A float mask's -inf hides even under a softcap, which would lift -inf to -c.
        **Source:** for the ALiBi term Press et al. 2022, section 3 (arXiv:2108.12409).
        """
        library = library_of(scores)
        if self.alibi_slopes is not None:
            distance = abs(self.gap(scores))  # (l, s)
            distance = distance.astype(scores.dtype) if library is np else distance.to(scores.dtype)
            scores = scores - self.alibi_slopes[..., None, None] * distance
        if self.attn_mask is not None and not is_bool(self.attn_mask):
            scores = scores + tiles.cut_mask(self.attn_mask, self.rows, self.cols)
        if self.softcap is not None:
            scores = self.softcap * library.tanh(scores / self.softcap)
        if self.attn_mask is not None:
            return library.where(self.seen(scores), scores, -np.inf)
        for edge in self._edges() if self.is_causal else ():
            part = scores[..., edge.start - self.cols.start : edge.stop - self.cols.start]
            hidden = ~masks.visible(
                tiles.gap(scores, self.rows, edge, self.shift), self.window_size
            )  # (l, e)
            if library is np:
                np.copyto(part, -np.inf, where=hidden)
            else:
                part.masked_fill_(hidden, -np.inf)
        return scores

    def softcap_slope(self, scores: Any) -> Any:
        """Return the derivative of the softcap from its own result, finished scores; 0 at -inf."""
        library = library_of(scores)
        hidden = scores == -np.inf
        finite = library.where(hidden, 0.0, scores)
        return library.where(hidden, 0.0, 1 - (finite / self.softcap) ** 2)

    def survived(self, weights: Any) -> Any:
        """Draw the block's dropout: 0 where a weight is dropped, else 1 / (1 - dropout_p)."""
        kept = self._kept(weights)
        library = library_of(weights)
        kept = kept.astype(weights.dtype) if library is np else kept.to(weights.dtype)
        return kept / (1 - self.dropout_p)

    def drop(self, weights: Any) -> Any:
        """Drop weights of the block, and raise the others to make up for them."""
        if not self.dropout_p:
            return weights
        return weights * self._kept(weights) / (1 - self.dropout_p)

    def without_blind(self, query: Any) -> Any:
        """Put zeros in queries that see no key: a NaN there would reach the keys' gradients."""
        blind = self.blind(query)
        return query if blind is None else library_of(query).where(blind, 0.0, query)

    def _kept(self, weights: Any) -> Any:
        assert self.dropout_seed is not None
        place = (self.rows, self.cols, slice(self.first_head, None))
        return dropout.keep(weights, self.dropout_p, self.dropout_seed, *place)

    @property
    def _is_known(self) -> bool:
        """Tell numbers from symbols: what is exported for any length must not look at one."""
        return isinstance(self.query_range[1], int) and isinstance(self.key_range[1], int)

    def _clear(self) -> slice:
        """Tell which keys of the block position lets each of its queries see, perhaps none."""
        if not self._is_known:
            return slice(0, 0)
        inside = tiles.clear(self.rows, self.cols.stop, self.shift, self.window_size)
        return slice(max(inside.start, self.cols.start), inside.stop)

    def _all_used(self) -> bool:
        """Tell whether position shows each key of the block to some query."""
        if not (self.is_causal and self._is_known):
            return not self.is_causal
        span = self.span(self.rows)
        return span.start <= self.cols.start and self.cols.stop <= span.stop

    def _edges(self) -> list[slice]:
        """Cut the keys of the block out that position hides from some query."""
        clear = self._clear()
        if clear.start >= clear.stop:
            return [self.cols] if self.cols.start < self.cols.stop else []
        edges = slice(self.cols.start, clear.start), slice(clear.stop, self.cols.stop)
        return [edge for edge in edges if edge.start < edge.stop]


def checked_slopes(alibi_slopes: Any, query: Any) -> Any:
    """Bring slopes to the query's library and device, as numbers of its working precision."""
    slopes = _convert.alike(alibi_slopes, query)
    _validate.slopes(slopes, tuple(query.shape))
    if _validate.is_float(slopes):
        return slopes
    numbers = slopes.astype(np.float64) if isinstance(slopes, np.ndarray) else slopes.double()
    return _convert.alike(numbers, query)


def within_range(softcap: float, query: Any) -> float | None:
    """Bring a softcap into the range of the type that scores have: what it never caps is none."""
    half = query.dtype.itemsize < 4
    limits = np.finfo(np.float32 if half else str(query.dtype).removeprefix("torch."))
    if softcap > float(limits.max) / 2:
        return None
    return max(float(softcap), float(limits.tiny))


def _wants_grad(*arrays: Any) -> bool:
    torch = sys.modules.get("torch")
    if torch is None or not torch.is_grad_enabled():
        return False
    return any(getattr(array, "requires_grad", False) for array in arrays)
