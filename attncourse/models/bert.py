"""An encoder that reads: BERT, which sees both sides of every token.

The one idea: without a causal mask each token is described by its whole sentence. Trained by
hiding tokens and asking for them, the stack becomes a reader that other tasks can use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attncourse import positions
from attncourse._validate import token_rows as check_ids
from attncourse.layers import ACTIVATIONS, EncoderBlock, attention_weights


@dataclass(frozen=True)
class BertConfig:
    """The sizes and the style of a `Bert`.

    Parameters
    ----------
    vocab_size, max_len : int
        Number of tokens in the vocabulary, and in the longest sequence.
    d_model, num_layers, num_heads : int
        Width, blocks, heads.
    d_ff : int, optional
        ``4 * d_model`` by default.
    num_segments : int, default 2
        Kinds of sentence (first, second) that have a vector of their own; 0 for none.
    activation, norm_first, norm_eps, dropout
        As in `attncourse.layers.EncoderBlock`; pre-norm adds a norm at the end.
    masked_head : bool, default True
        Have a head that guesses hidden tokens.
    pooler : bool, default False
        Have a map that makes one vector of the first token.

    Notes
    -----
    **Source:** Devlin et al. 2019, section 3 (arXiv:1810.04805).
    """

    vocab_size: int
    max_len: int
    d_model: int = 128
    num_layers: int = 2
    num_heads: int = 4
    d_ff: int | None = None
    num_segments: int = 2
    activation: str = "gelu"
    norm_first: bool = False
    norm_eps: float = 1e-12
    dropout: float = 0.0
    masked_head: bool = True
    pooler: bool = False


class Bert(nn.Module):
    """Describe each token of a sentence by the whole sentence.

    Parameters
    ----------
    config : BertConfig
        Sizes and style.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        width, eps = config.d_model, config.norm_eps
        self.embed = positions.learned(config.vocab_size, width)
        self.position = positions.learned(config.max_len, width)
        self.segment = (
            positions.learned(config.num_segments, width) if config.num_segments else None
        )
        self.embed_norm = nn.LayerNorm(width, eps)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(_block(config) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(width, eps) if config.norm_first else None
        self.head = MaskedHead(config) if config.masked_head else None
        self.pooler = nn.Linear(width, width) if config.pooler else None
        self._tie()
        self.register_load_state_dict_post_hook(Bert._tie)

    def _tie(self, *_: Any) -> None:
        """Use the embedding's rows as the rows of the head's output."""
        if self.head is not None:
            self.head.unembed.weight = self.embed.weight

    def forward(
        self, ids: Tensor, attend: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """Read sentences.

        Parameters
        ----------
        ids : Tensor of int64, shape (B, L)
            Tokens.
        attend : Tensor of bool, shape (B, L), optional
            True for tokens, False for padding, as `attncourse.text.pad` returns it.
        segments : Tensor of int64, shape (B, L), optional
            Which sentence each token belongs to; 0 by default.

        Returns
        -------
        Tensor, shape (B, L, d_model)
            Rows of padding mean nothing.

        Raises
        ------
        ValueError
            When shapes do not fit, the sequence is longer than `max_len`, or `ids` are none at
            all or outside the vocabulary.
        TypeError
            When `ids` are no tensor of integers, or `attend` is not boolean.
        """
        x = self.hidden_states(ids, attend, segments)[-1]
        return x if self.norm is None else self.norm(x)

    def hidden_states(
        self, ids: Tensor, attend: Tensor | None = None, segments: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return the tokens as they enter the first block and as they leave each block.

        Parameters
        ----------
        ids, attend, segments
            As in `forward`.

        Returns
        -------
        tuple of Tensor, shapes (B, L, d_model)
            num_layers + 1 of them.
        """
        mask = None if attend is None else _key_mask(attend, ids)  # (B, 1, 1, L)
        states = [self._embedded(ids, segments)]
        for block in self.blocks:
            states.append(block(states[-1], attn_mask=mask))
        return tuple(states)

    def attention_weights(
        self, ids: Tensor, attend: Tensor | None = None, segments: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return the weights (B, H, L, L) of every layer, for looking at."""
        return attention_weights(self, ids, attend, segments)

    def predict(
        self, ids: Tensor, attend: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """Score every token of the vocabulary at every position: (B, L, vocab_size)."""
        if self.head is None:
            raise ValueError("this Bert has no head to guess tokens: set masked_head=True")
        return self.head(self(ids, attend, segments))

    def pool(self, hidden: Tensor) -> Tensor:
        """Make one vector (B, d_model) of the first token of hidden states (B, L, d_model)."""
        if self.pooler is None:
            raise ValueError("this Bert has no pooler: set pooler=True")
        return torch.tanh(self.pooler(hidden[:, 0]))

    def _embedded(self, ids: Tensor, segments: Tensor | None) -> Tensor:
        """Add token, position and segment vectors, and normalise."""
        check_ids(ids, self.config.vocab_size)
        length = ids.shape[1]
        if length > self.config.max_len:
            raise ValueError(f"the sequence has {length} tokens, max_len is {self.config.max_len}")
        x = self.embed(ids) + self.position.weight[:length]  # (B, L, d_model)
        if self.segment is not None:
            x = x + self.segment(torch.zeros_like(ids) if segments is None else segments)
        return self.dropout(self.embed_norm(x))


class MaskedHead(nn.Module):
    """Guess tokens from their descriptions; the output's rows are the embedding's.

    Parameters
    ----------
    config : BertConfig
        For the width and the style.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.norm = nn.LayerNorm(config.d_model, config.norm_eps)
        self.unembed = nn.Linear(config.d_model, config.vocab_size)  # `Bert` shares its rows

    def forward(self, hidden: Tensor) -> Tensor:
        """Turn hidden states (B, L, d_model) into logits (B, L, vocab_size)."""
        return self.unembed(self.norm(ACTIVATIONS[self.activation](self.dense(hidden))))


def _block(config: BertConfig) -> EncoderBlock:
    return EncoderBlock(
        config.d_model,
        config.num_heads,
        config.d_ff or 4 * config.d_model,
        norm_first=config.norm_first,
        activation=config.activation,
        eps=config.norm_eps,
        dropout=config.dropout,
    )


def _key_mask(attend: Tensor, ids: Tensor) -> Tensor:
    """Check a padding mask (B, L) and give it the axes of the scores."""
    if attend.shape != ids.shape:
        raise ValueError(f"attend has shape {tuple(attend.shape)}, ids {tuple(ids.shape)}")
    if attend.dtype != torch.bool:
        raise TypeError(f"attend must be boolean (True = attend), got {attend.dtype}")
    return attend[:, None, None, :]
