"""Several attentions side by side: multi-head attention around any rung of the ladder.

The one idea: four linear maps. Three cut each token into queries, keys and values for H heads of
width E, attention runs in every head by itself, and the fourth map mixes what the heads found.
Left out: normalisation and residual connections (`attncourse.layers.blocks`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attncourse._validate import whole
from attncourse.decode import decode
from attncourse.decode.kv_cache import KVCache
from attncourse.grouped import stack, unstack
from attncourse.layers.linear import Linear
from attncourse.layers.rotary import check_pairing, turn
from attncourse.rungs import attention


class MultiHeadAttention(nn.Module):
    """Let every token ask the others, in H heads at once.

    Parameters
    ----------
    d_model : int
        Width of the tokens, in and out.
    num_heads : int
        H, the number of query heads.
    num_kv_heads : int, optional
        Hkv, a divisor of H: key/value heads, each shared by H / Hkv query heads. H by default.
    head_dim : int, optional
        E, the width of a head; ``d_model / num_heads`` by default.
    d_memory : int, optional
        Width of the tokens that keys and values are made of; `d_model` by default.
    bias, out_bias : bool, default True
        Whether the maps to queries, keys and values, and the map back, add a bias. `out_bias`
        follows `bias` by default.
    rotary : {None, "half", "interleaved"}
        Turn queries and keys by their position, with this pairing (`attncourse.positions.rotary`).
    rotary_base : float, default 10000
        Base of the turning angles.
    dropout : float, default 0.0
        Probability with which a weight is dropped, in training only.
    rung : str, default "auto"
        Which rung of the ladder computes it.

    Raises
    ------
    ValueError
        When the head counts or the widths do not divide, or one of them is below 1.

    Notes
    -----
    Parameters: (d_model + 1)·E·(H + 2·Hkv) + (H·E + 1)·d_model, with biases.
    **Source:** Vaswani et al. 2017, section 3.2.2 (arXiv:1706.03762).
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        d_memory: int | None = None,
        bias: bool = True,
        out_bias: bool | None = None,
        rotary: str | None = None,
        rotary_base: float = 10000.0,
        dropout: float = 0.0,
        rung: str = "auto",
    ) -> None:
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self._check_sizes(d_model, head_dim)
        self.head_dim = d_model // num_heads if head_dim is None else head_dim
        check_pairing(rotary, self.head_dim)
        self.rotary, self.rotary_base = rotary, rotary_base
        self.dropout, self.rung = dropout, rung
        d_memory = d_model if d_memory is None else d_memory
        d_kv = num_kv_heads * self.head_dim
        self.to_query = Linear(d_model, num_heads * self.head_dim, bias)
        self.to_key = Linear(d_memory, d_kv, bias)
        self.to_value = Linear(d_memory, d_kv, bias)
        out_bias = bias if out_bias is None else out_bias
        self.to_out = Linear(num_heads * self.head_dim, d_model, out_bias)

    def _check_sizes(self, d_model: int, head_dim: int | None) -> None:
        sizes = {"d_model": d_model, "num_heads": self.num_heads}
        sizes |= {"num_kv_heads": self.num_kv_heads}
        for name, size in (sizes if head_dim is None else sizes | {"head_dim": head_dim}).items():
            if whole(name, size) < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        if head_dim is None and d_model % self.num_heads:
            raise ValueError(
                f"d_model is {d_model}, num_heads {self.num_heads}; {d_model} must be a multiple "
                f"of {self.num_heads}, or give head_dim"
            )
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_kv_heads is {self.num_kv_heads}, num_heads {self.num_heads}; "
                f"{self.num_heads} must be a multiple of {self.num_kv_heads}"
            )

    def project(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, start: int = 0
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Cut tokens into the queries, keys and values of every head.

        Parameters
        ----------
        query, key, value : Tensor, shapes (B, L, d_model), (B, S, d_memory), (B, S, d_memory)
            Tokens; `key` is `query` by default, `value` is `key`.
        start : int, default 0
            Position of the first token, for rotary positions.

        Returns
        -------
        Tensors of shapes (B, H, L, E), (B, Hkv, S, E), (B, Hkv, S, E)
        """
        key = query if key is None else key
        value = key if value is None else value
        _check_tokens("query", query, self.to_query)
        _check_tokens("key", key, self.to_key)
        _check_tokens("value", value, self.to_value)
        q = self._heads(self.to_query(query))  # (B, H, L, E)
        k, v = self._heads(self.to_key(key)), self._heads(self.to_value(value))  # (B, Hkv, S, E)
        if self.rotary and q.shape[2] == k.shape[2] == 1:  # while writing, every call counts
            both = turn(torch.cat([q, k], dim=1), start, self.rotary_base, self.rotary)
            q, k = both.split([self.num_heads, self.num_kv_heads], dim=1)
        elif self.rotary:
            q = turn(q, start, self.rotary_base, self.rotary)
            k = turn(k, start, self.rotary_base, self.rotary)
        return q, k, v

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        attn_mask: Any = None,
        is_causal: bool = False,
        cache: KVCache | None = None,
        **hiding: Any,
    ) -> Tensor:
        """Attend in every head and mix what they found.

        Parameters
        ----------
        query, key, value : Tensor, shapes (B, L, d_model), (B, S, d_memory), (B, S, d_memory)
            Tokens; `key` is `query` by default, `value` is `key`.
        attn_mask, is_causal
            As in `attncourse.attention`; a mask broadcasts to (B, H, L, S).
        cache : KVCache, optional
            Holds the earlier tokens and receives the new ones; attention is causal then.
        **hiding
            `window_size`, `softcap`, `alibi_slopes`, as in `attncourse.attention`.

        Returns
        -------
        Tensor, shape (B, L, d_model)
            A row that sees no key holds the output map's bias.
        """
        q, k, v = self.project(query, key, value, 0 if cache is None else len(cache))
        if cache is None:
            options = {"attn_mask": attn_mask, "is_causal": is_causal, **hiding}
            out = self._attend(q, k, v, options)  # (B, H, L, E)
        else:
            out = self._attend_with(cache, q, k, v, attn_mask, hiding)
        return self.to_out(out.transpose(1, 2).flatten(2))

    def weights(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        attn_mask: Any = None,
        is_causal: bool = False,
        **hiding: Any,
    ) -> Tensor:
        """Return the weights that `forward` would mix the values with, for looking at.

        Parameters
        ----------
        query, key, value, attn_mask, is_causal, **hiding
            As in `forward`.

        Returns
        -------
        Tensor, shape (B, H, L, S)
            Rows sum to 1, or to 0 where no key is seen.

        Notes
        -----
        No rung hands its weights out. Values that form the identity matrix make the weighted sum
        of the values the weights themselves.
        """
        q, k, _ = self.project(query, key, value)
        identity = torch.eye(k.shape[2], dtype=q.dtype, device=q.device)
        identity = identity.expand(*k.shape[:2], -1, -1)  # (B, Hkv, S, S)
        options = {"attn_mask": attn_mask, "is_causal": is_causal, **hiding}
        return self._attend(q, k, identity, options, dropout_p=0.0)

    def _heads(self, x: Tensor) -> Tensor:
        """Turn (B, n, heads · E) into (B, heads, n, E)."""
        batch, length, width = x.shape
        shape = batch, length, width // self.head_dim, self.head_dim
        return x.reshape(shape).transpose(1, 2)

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, options: dict, dropout_p: float | None = None
    ) -> Tensor:
        """Run the rung."""
        if dropout_p is None:
            dropout_p = self.dropout if self.training else 0.0
        grouped = self.num_kv_heads != self.num_heads
        return attention(
            q, k, v, dropout_p=dropout_p, enable_gqa=grouped, rung=self.rung, **options
        )

    def _attend_with(
        self, cache: KVCache, q: Tensor, k: Tensor, v: Tensor, attn_mask: Any, hiding: dict
    ) -> Tensor:
        """Put the new keys and values behind the old ones, and attend to all of them.

        A single new token on rung "auto" takes `decode`, which is made for it, or on a CPU, where
        it sees all keys, its idea alone: the query heads that share a key are rows of one matrix.
        A rung that was asked for by name is never swapped.
        """
        k, v = cache.append(k, v)
        q = q.to(k.dtype)  # under autocast the cache may be wider than what the maps return
        if self.rung == "auto" and attn_mask is None and q.shape[2] == 1:
            if hiding or q.device.type != "cpu":
                return decode(q, k, v, **hiding)
            return unstack(attention(stack(q, self.num_kv_heads), k, v), self.num_heads)
        options = {"attn_mask": attn_mask, "is_causal": True, "causal_align": "bottom_right"}
        return self._attend(q, k, v, {**options, **hiding})


def _check_tokens(name: str, x: Tensor, linear: nn.Linear) -> None:
    """Refuse what is no batch of sequences of tokens as wide as a map takes them."""
    if x.ndim != 3 or x.shape[-1] != linear.in_features:
        wanted = f"(batch, tokens, {linear.in_features})"
        raise ValueError(f"{name} must have shape {wanted}, got {tuple(x.shape)}")
