"""Blocks: attention and feed-forward, each added to the token that it read.

The one idea: a block never replaces a token, it adds to it. An encoder block looks at its own
sequence (a GPT is a stack of them with a causal mask); a decoder block looks at a second one too.
Normalisation stands in front of each part (pre-norm) or behind each sum (post-norm).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import dropout as drop

from attncourse.decode.kv_cache import KVCache
from attncourse.layers.feed_forward import FeedForward, make_norm
from attncourse.layers.heads import MultiHeadAttention


class EncoderBlock(nn.Module):
    """Attend to the own sequence, then think about each token.

    Parameters
    ----------
    d_model, num_heads, d_ff : int
        Width of the tokens, number of heads, width inside the feed-forward layer.
    norm_first : bool, default True
        True: x + part(norm(x)), as in GPT-2 and ViT. False: norm(x + part(x)), as in the first
        Transformer and in BERT.
    activation : str, default "gelu"
        Of the feed-forward layer.
    norm : {"layer", "rms"}
        Kind of normalisation.
    eps : float, default 1e-5
        Of the normalisation.
    bias : bool, default True
        Whether linear maps add a bias.
    attention_bias : bool, optional
        The same for queries, keys and values alone; `bias` by default.
    dropout : float, default 0.0
        On the weights of attention and on what each part adds, in training only.
    **heads
        Further arguments of `MultiHeadAttention`.

    Notes
    -----
    **Source:** Vaswani et al. 2017, section 3.1 (arXiv:1706.03762); Xiong et al. 2020 for why
    pre-norm trains more easily (arXiv:2002.04745).
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        *,
        norm_first: bool = True,
        activation: str = "gelu",
        norm: str = "layer",
        eps: float = 1e-5,
        bias: bool = True,
        attention_bias: bool | None = None,
        dropout: float = 0.0,
        **heads: Any,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        attention_bias = bias if attention_bias is None else attention_bias
        self.attention = MultiHeadAttention(
            d_model, num_heads, bias=attention_bias, out_bias=bias, dropout=dropout, **heads
        )
        self.attention_norm = make_norm(norm, d_model, eps)
        self.feed_forward = FeedForward(d_model, d_ff, activation, bias=bias)
        self.feed_forward_norm = make_norm(norm, d_model, eps)
        self.dropout = dropout

    def forward(
        self,
        x: Tensor,
        *,
        attn_mask: Any = None,
        is_causal: bool = False,
        cache: KVCache | None = None,
        **hiding: Any,
    ) -> Tensor:
        """Turn tokens (B, L, d_model) into tokens of the same shape.

        Parameters
        ----------
        x : Tensor, shape (B, L, d_model)
            The tokens; with a cache, only the new ones.
        attn_mask, is_causal, cache, **hiding
            As in `MultiHeadAttention.forward`.

        Returns
        -------
        Tensor, shape (B, L, d_model)
        """
        hiding |= {"attn_mask": attn_mask, "is_causal": is_causal, "cache": cache}
        if self.norm_first:
            x = x + self._drop(self.attention(self.attention_norm(x), **hiding))
            return x + self._drop(self.feed_forward(self.feed_forward_norm(x)))
        x = self.attention_norm(x + self._drop(self.attention(x, **hiding)))
        return self.feed_forward_norm(x + self._drop(self.feed_forward(x)))

    def _drop(self, x: Tensor) -> Tensor:
        """Drop some of what a part adds, in training only."""
        return drop(x, self.dropout) if self.training and self.dropout else x


class DecoderBlock(EncoderBlock):
    """Attend to the own past, then to a second sequence, then think about each token.

    Parameters
    ----------
    d_model, num_heads, d_ff
        As in `EncoderBlock`.
    d_memory : int, optional
        Width of the second sequence; `d_model` by default.
    **options
        As in `EncoderBlock`.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        *,
        d_memory: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(d_model, num_heads, d_ff, **options)
        heads = {name: options[name] for name in ("bias", "dropout", "rung") if name in options}
        self.cross_attention = MultiHeadAttention(d_model, num_heads, d_memory=d_memory, **heads)
        self.cross_norm = make_norm(options.get("norm", "layer"), d_model, options.get("eps", 1e-5))

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        memory: Tensor,
        *,
        attn_mask: Any = None,
        memory_mask: Any = None,
        is_causal: bool = True,
        cache: KVCache | None = None,
        **hiding: Any,
    ) -> Tensor:
        """Turn tokens (B, L, d_model) into tokens of the same shape.

        Parameters
        ----------
        x : Tensor, shape (B, L, d_model)
            The tokens written so far; with a cache, only the new ones.
        memory : Tensor, shape (B, S, d_memory)
            The sequence to read from, for instance an encoder's output.
        attn_mask, is_causal, cache, **hiding
            For the attention to the own sequence.
        memory_mask : optional
            For the cross-attention: True = attend, broadcastable to (B, H, L, S).

        Returns
        -------
        Tensor, shape (B, L, d_model)
        """
        hiding |= {"attn_mask": attn_mask, "is_causal": is_causal, "cache": cache}
        if self.norm_first:
            x = x + self._drop(self.attention(self.attention_norm(x), **hiding))
            found = self.cross_attention(self.cross_norm(x), memory, attn_mask=memory_mask)
            x = x + self._drop(found)
            return x + self._drop(self.feed_forward(self.feed_forward_norm(x)))
        x = self.attention_norm(x + self._drop(self.attention(x, **hiding)))
        found = self.cross_attention(x, memory, attn_mask=memory_mask)
        x = self.cross_norm(x + self._drop(found))
        return self.feed_forward_norm(x + self._drop(self.feed_forward(x)))
