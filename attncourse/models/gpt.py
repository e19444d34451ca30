"""A decoder that writes: GPT-2 or Llama, depending on its configuration.

The one idea: a stack of blocks that may look at the past only. Every position predicts the next
token, so one pass gives as many lessons as there are tokens; when writing, a cache keeps the keys
and values of what was read. Left out: choosing the next token (`attncourse.models.generate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attncourse import positions
from attncourse._validate import token_rows as check_ids
from attncourse.decode.kv_cache import KVCache
from attncourse.layers import EncoderBlock, attention_weights, make_norm
from attncourse.layers.linear import Linear
from attncourse.layers.rotary import PAIRINGS

POSITIONS = ("learned", "sinusoidal", "rotary", "alibi", "none")


@dataclass(frozen=True)
class GPTConfig:
    """The sizes and the style of a `GPT`.

    Parameters
    ----------
    vocab_size, max_len : int
        Number of tokens in the vocabulary, and in the longest sequence.
    d_model, num_layers, num_heads : int
        Width, blocks, heads.
    num_kv_heads, head_dim, d_ff : int, optional
        `num_heads`, ``d_model / num_heads`` and ``4 * d_model`` by default.
    positions : {"learned", "sinusoidal", "rotary", "alibi", "none"}
        How the model knows the order; causality alone tells it a little.
    pairing, rotary_base
        For rotary positions, as in `attncourse.positions.rotary`.
    activation, norm, norm_eps, norm_first, bias, dropout
        As in `attncourse.layers.EncoderBlock`; post-norm has no norm at the end.
    attention_bias : bool, optional
        Whether queries, keys and values have a bias; `bias` by default.
    tied : bool, default True
        Use the embedding's rows as the output's rows.
    window_size : int, optional
        Look back at most this many tokens.

    Notes
    -----
    The defaults are GPT-2's style; `GPTConfig.llama` has the other one.
    **Source:** Radford et al. 2019, section 2.3.
    """

    vocab_size: int
    max_len: int
    d_model: int = 128
    num_layers: int = 3
    num_heads: int = 4
    num_kv_heads: int | None = None
    head_dim: int | None = None
    d_ff: int | None = None
    positions: str = "learned"
    pairing: str = "half"
    rotary_base: float = 10000.0
    activation: str = "gelu_tanh"
    norm: str = "layer"
    norm_eps: float = 1e-5
    norm_first: bool = True
    bias: bool = True
    attention_bias: bool | None = None
    dropout: float = 0.0
    tied: bool = True
    window_size: int | None = None

    def __post_init__(self) -> None:
        if self.positions not in POSITIONS:
            raise ValueError(f"positions must be one of {POSITIONS}, got {self.positions!r}")
        if self.pairing not in PAIRINGS:
            raise ValueError(f"pairing must be one of {PAIRINGS}, got {self.pairing!r}")

    @classmethod
    def llama(cls, vocab_size: int, max_len: int, **sizes: Any) -> GPTConfig:
        """Make the configuration of a Llama: rotary positions, RMS norms, SwiGLU, no biases.

        Notes
        -----
        **Source:** Touvron et al. 2023, section 2.2 (arXiv:2302.13971).
        """
        style = {"positions": "rotary", "norm": "rms", "activation": "swiglu", "bias": False}
        return cls(vocab_size, max_len, **{**style, "tied": False, **sizes})


class GPT(nn.Module):
    """Predict the next token at every position.

    Parameters
    ----------
    config : GPTConfig
        Sizes and style.

    Notes
    -----
    Weights start normal with standard deviation 0.02; those of the maps that add to the tokens are
    divided by the root of their number, so that the sum starts with the same size at any depth.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.d_model)
        self.position = _position_table(config)
        self.blocks = nn.ModuleList(_block(config) for _ in range(config.num_layers))
        ends_in_norm = config.norm_first
        self.norm = (
            make_norm(config.norm, config.d_model, config.norm_eps) if ends_in_norm else None
        )
        self.unembed = Linear(config.d_model, config.vocab_size, bias=False)
        self.apply(_start)
        for name, parameter in self.named_parameters():
            if name.endswith(("to_out.weight", "down.weight")):
                nn.init.normal_(parameter, std=0.02 / (2 * config.num_layers) ** 0.5)
        self._tie()
        self.register_load_state_dict_post_hook(GPT._tie)

    def _tie(self, *_: Any) -> None:
        """Use the embedding's rows as the output's rows, where the style says so."""
        if self.config.tied:
            self.unembed.weight = self.embed.weight

    def new_cache(self, batch_size: int = 1, capacity: int = 64) -> list[KVCache]:
        """Make an empty cache: one `KVCache` a layer, in the type of the keys, also under autocast.

        Parameters
        ----------
        batch_size : int, default 1
            B.
        capacity : int, default 64
            Tokens to make room for at first; it grows by itself.
        """
        config, like = self.config, self.embed.weight
        kind = like.device.type
        lowered = torch.is_autocast_enabled(kind) and like.dtype != torch.float64
        num_kv_heads = config.num_kv_heads or config.num_heads
        head_dim = config.head_dim or config.d_model // config.num_heads
        return [
            KVCache(
                batch_size,
                num_kv_heads,
                head_dim,
                capacity=capacity,
                dtype=torch.get_autocast_dtype(kind) if lowered else like.dtype,
                device=like.device,
            )
            for _ in self.blocks
        ]

    def forward(
        self, ids: Tensor, cache: list[KVCache] | None = None, *, last_only: bool = False
    ) -> Tensor:
        """Score every token as the next one, at every position.

        Parameters
        ----------
        ids : Tensor of int64, shape (B, L)
            Tokens; with a cache, only those that it does not hold yet.
        cache : list of KVCache, optional
            From `new_cache`; receives the tokens read.
        last_only : bool, default False
            Score the last position only: enough for writing, and cheaper.

        Returns
        -------
        logits : Tensor, shape (B, L, vocab_size)
            Or (B, 1, vocab_size) with `last_only`.

        Raises
        ------
        ValueError
            When the sequence is longer than `max_len`, `ids` has not two axes, none at all, or
            a number outside the vocabulary.
        TypeError
            When `ids` is no tensor of integers.
        """
        x, caches, limits = self._start(ids, cache)
        for block, kept in zip(self.blocks, caches, strict=True):
            x = block(x, cache=kept, **limits)  # (B, L, d_model)
        x = x[:, -1:] if last_only else x
        return self.unembed(x if self.norm is None else self.norm(x))

    def hidden_states(self, ids: Tensor, cache: list[KVCache] | None = None) -> tuple[Tensor, ...]:
        """Return the tokens as they enter the first block and as they leave each block.

        Parameters
        ----------
        ids, cache
            As in `forward`.

        Returns
        -------
        tuple of Tensor, shapes (B, L, d_model)
            num_layers + 1 of them, before the norm at the end.
        """
        x, caches, limits = self._start(ids, cache)
        states = [x]
        for block, kept in zip(self.blocks, caches, strict=True):
            states.append(block(states[-1], cache=kept, **limits))
        return tuple(states)

    def _start(self, ids: Tensor, cache: list[KVCache] | None) -> tuple[Tensor, Any, dict]:
        """Return what enters the first block, a cache for each block, and what limits all views."""
        x = self._embedded(ids, 0 if cache is None else len(cache[0]))  # (B, L, d_model)
        limits: dict[str, Any] = {"is_causal": True}
        if self.config.window_size is not None:
            limits["window_size"] = self.config.window_size
        if self.config.positions == "alibi":
            # Computed and not kept: no move, no conversion and no file can spoil them.
            slopes = positions.alibi_slopes(self.config.num_heads)
            wide = torch.promote_types(x.dtype, torch.float32)
            limits["alibi_slopes"] = torch.as_tensor(slopes, dtype=wide, device=x.device)
        return x, [None] * len(self.blocks) if cache is None else cache, limits

    def attention_weights(self, ids: Tensor) -> tuple[Tensor, ...]:
        """Return the weights (B, H, L, L) of every layer, for looking at."""
        return attention_weights(self, ids)

    def _embedded(self, ids: Tensor, start: int) -> Tensor:
        """Look the tokens up, and add their positions where the style says so."""
        check_ids(ids, self.config.vocab_size)
        stop = start + ids.shape[1]
        if stop > self.config.max_len:
            raise ValueError(f"the sequence has {stop} tokens, max_len is {self.config.max_len}")
        x = self.embed(ids)  # (B, L, d_model)
        return x if self.position is None else x + self.position.weight[start:stop]


def _block(config: GPTConfig) -> EncoderBlock:
    bias = config.bias if config.attention_bias is None else config.attention_bias
    block = EncoderBlock(
        config.d_model,
        config.num_heads,
        config.d_ff or 4 * config.d_model,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        rotary=config.pairing if config.positions == "rotary" else None,
        rotary_base=config.rotary_base,
        activation=config.activation,
        norm=config.norm,
        eps=config.norm_eps,
        norm_first=config.norm_first,
        bias=config.bias,
        attention_bias=bias,
        dropout=config.dropout,
    )
    return block


def _position_table(config: GPTConfig) -> nn.Embedding | None:
    """Make the table of positions that are added to the tokens, if the style adds any."""
    if config.positions == "learned":
        return positions.learned(config.max_len, config.d_model)
    if config.positions == "sinusoidal":
        table = torch.from_numpy(positions.sinusoidal(config.max_len, config.d_model)).float()
        return nn.Embedding.from_pretrained(table, freeze=True)
    return None


def _start(module: nn.Module) -> None:
    """Set the weights that GPT-2 starts from."""
    if isinstance(module, nn.Linear | nn.Embedding) and module.weight.requires_grad:
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
